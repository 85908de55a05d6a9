cc -std=c99 engine.c -o engine $(pkg-config --cflags --libs --static ffnorm)
./engine
