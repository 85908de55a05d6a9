# In ffnorm's source tree: the library alone, into a prefix.
meson setup "$BUILD" --prefix "$PREFIX" --libdir lib \
  -Dtests=disabled -Dbench=disabled -Dcli=disabled \
  -Dexamples=disabled
meson install -C "$BUILD"
export PKG_CONFIG_PATH="$PREFIX/lib/pkgconfig"
