#!/bin/bash
#
# Runs a static x86-64 Linux program on an emulated CPU that has AVX-512, for
# machines whose own CPU does not.
#
# Usage: run_avx512.sh [--file PATH]... [--env NAME=VALUE]... PROGRAM [ARG]...
#
#   --file PATH        copies the file (a relative path) into the guest, under
#                      the same path relative to the program's directory
#   --env NAME=VALUE   sets a variable of the program's environment, which is
#                      otherwise empty
#
# Prints what the program prints (standard output and standard error together,
# as it comes) and exits with its exit status, or 128 plus the signal that
# ended it. Exits with 124 if the time was up, and with 125 if the emulator
# could not be set up or the guest died, and tells why on standard error.
#
# The emulator is Bochs with its Sapphire Rapids model. The first run downloads
# Bochs and a Debian kernel, from the same mirror as this machine's own packages
# but from a newer suite, through a private apt state, and keeps them in a
# cache: the system's packages and sources stay as they are. Bochs comes as
# source and is compiled, which takes minutes: the packaged program has a
# debugger built in that makes it half as fast, and a wrong VPCONFLICT.
#
# The guest has no firmware, boot loader or devices to find: a boot ROM of a few
# instructions reads the uncompressed kernel and an initramfs from the emulated
# disk and enters the kernel in long mode.
#
# The guest has one CPU. Its clock counts instructions, a thousand million for
# each second, so that times which the program measures are not real times.
#
# Environment:
#   AVX512_TIMEOUT     seconds the guest may run, 1200 by default
#   AVX512_MEMORY_MB   memory of the guest, 1024 by default
#   AVX512_CPU_MODEL   Bochs CPU model, sapphire_rapids by default
#   AVX512_SUITE       Debian suite, trixie by default; it needs Bochs >= 3.0
#   AVX512_CACHE       cache directory, by default run_avx512 in the user's
#                      cache directory; remove it to download afresh
#
# Needs Debian's apt, g++, make, the static C library, and zstd.

set -euo pipefail

readonly SUITE="${AVX512_SUITE:-trixie}"
readonly CACHE="${AVX512_CACHE:-${XDG_CACHE_HOME:-${HOME}/.cache}/run_avx512}"
readonly TIMEOUT="${AVX512_TIMEOUT:-1200}"
readonly MEMORY_MB="${AVX512_MEMORY_MB:-1024}"
readonly CPU_MODEL="${AVX512_CPU_MODEL:-sapphire_rapids}"
readonly MINIMUM_BOCHS_VERSION=3.0

# Instructions that make one second of the guest's clock.
readonly CLOCK_HZ=1000000000
# Where the kernel is linked to run, and the unit in which the ROM reads.
readonly KERNEL_START=$((16 << 20))
readonly CHUNK=$((64 << 10))
# Bochs takes only whole cylinders of a disk into account.
readonly CYLINDER=$((16 * 63 * 512))
readonly GUEST_BEGIN='=== guest program starts ==='

# Parts of the kernel's start that take long when emulated and matter to no
# program here: self-tests, certificates, tracing, network congestion control.
readonly SKIPPED_INITCALLS=load_system_certificate_list,jent_mod_init,\
init_kprobe_trace,bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init
readonly KERNEL_PARAMETERS="console=ttyS0,115200 quiet loglevel=1 panic=-1 \
acpi=off pci=off nolapic no_timer_check nokaslr mitigations=off audit=0 \
init_on_alloc=0 tsc=reliable tsc_early_khz=$((CLOCK_HZ / 1000)) \
lpj=$((CLOCK_HZ / 250)) cryptomgr.notests \
initcall_blacklist=${SKIPPED_INITCALLS}"

die() {
  echo "run_avx512: $*" >&2
  exit 125
}

usage() {
  sed -n '/^# Usage/,/^$/s/^# \{0,1\}//p' "$0" >&2
  exit 125
}

# The boot ROM and the first chunk of memory. The script defines CHUNKS (how
# many chunks the disk holds), ENTRY, MEMORY, INITRD_START, INITRD_SIZE and
# COMMAND_LINE.
write_boot_source() {
  cat <<'EOF'
        .section .rom, "ax"
        .code16
reset:
        cli
        lgdtl %cs:gdt_pointer
        movl %cr0, %eax
        orl $1, %eax
        movl %eax, %cr0
        ljmpl $0x08, $(0xF0000 + protected_mode)

        .code32
protected_mode:
        movw $0x18, %ax
        movw %ax, %ds
        movw %ax, %es
        movw %ax, %ss
        cld
        // A second start means that the kernel gave up: end the emulator.
        movl $0x9F000, %esi
        cmpl $0x52455345, (%esi)
        movl $0x52455345, (%esi)
        je power_off
        // Chunk 0 goes to address 0, the others to where the kernel belongs.
        movb $2, %al                   // no interrupts from the disk
        movw $0x3F6, %dx
        outb %al, %dx
        xorl %ebx, %ebx                // chunk
        xorl %edi, %edi                // address
read_chunk:
        movl $(0xF0000 + 1f), %ebp
        jmp wait_for_disk
1:      movw $0x1F2, %dx
        movb $128, %al                 // sectors
        outb %al, %dx
        movl %ebx, %eax
        shll $7, %eax                  // first sector
        orl $0xE0000000, %eax          // counted from 0, on the first disk
        movl $4, %ecx
1:      incl %edx
        outb %al, %dx
        shrl $8, %eax
        loop 1b
        incl %edx
        movb $0x20, %al                // read
        outb %al, %dx
        movl $128, %esi
read_sector:
        movl $(0xF0000 + 1f), %ebp
        jmp wait_for_disk
1:      testb $0x08, %al               // data is there
        jz read_sector
        movw $0x1F0, %dx
        movl $256, %ecx
        rep insw
        decl %esi
        jnz read_sector
        testl %ebx, %ebx
        jnz 1f
        movl $KERNEL_START, %edi
1:      incl %ebx
        cmpl $CHUNKS, %ebx
        jb read_chunk

        movl $0x20, %eax               // CR4.PAE
        movl %eax, %cr4
        movl $page_map, %eax
        movl %eax, %cr3
        movl $0xC0000080, %ecx         // EFER.LME
        rdmsr
        orl $0x100, %eax
        wrmsr
        movl %cr0, %eax
        orl $0x80000000, %eax          // CR0.PG
        movl %eax, %cr0
        ljmpl $0x10, $(0xF0000 + long_mode)

power_off:
        movl $(0xF0000 + shutdown), %esi
        movl $8, %ecx
        movw $0x8900, %dx
        rep outsb
        hlt

wait_for_disk:                         // returns to %ebp, and the status in %al
        movw $0x1F7, %dx
1:      inb %dx, %al
        testb $0x80, %al               // busy
        jnz 1b
        jmp *%ebp

        .code64
long_mode:
        movl $boot_params, %esi
        movl $ENTRY, %eax
        jmp *%rax

shutdown:
        .ascii "Shutdown"
        .balign 8
gdt:
        .quad 0
        .quad 0x00CF9A000000FFFF       // 0x08: 32-bit code
        .quad 0x00AF9A000000FFFF       // 0x10: 64-bit code
        .quad 0x00CF92000000FFFF       // 0x18: data
gdt_pointer:
        .word 4 * 8 - 1
        .long 0xF0000 + gdt
        .org 0xFFF0
        .code16
        ljmp $0xF000, $reset
        .org 0x10000

        .section .low, "aw"
        .org 0x1000
page_map:
        .quad page_directory + 3
        .org 0x2000
page_directory:                        // the first 4 GiB as they are
        .quad 0x00000083, 0x40000083, 0x80000083, 0xC0000083
        .org 0x3000
boot_params:
        .org boot_params + 0x1E8
        .byte 2                        // entries of the memory map
        .org boot_params + 0x1FE
        .word 0xAA55
        .org boot_params + 0x202
        .ascii "HdrS"
        .word 0x20F                    // version of the boot protocol
        .org boot_params + 0x210
        .byte 0xFF, 1                  // unregistered loader, loaded high
        .org boot_params + 0x218
        .long INITRD_START, INITRD_SIZE
        .org boot_params + 0x228
        .long command_line
        .org boot_params + 0x2D0       // memory map: start, size, type
        .quad 0, 0x9F000
        .long 1
        .quad 0x100000, MEMORY - 0x100000
        .long 1
        .org 0x4000
command_line:
        .asciz COMMAND_LINE
        .org 0x10000
EOF
}

# The guest's first process. The output goes to a port whose bytes Bochs writes
# to its standard output, the exit status to the first serial port.
write_init_source() {
  cat <<'EOF'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSerial = 0x3F8, kSerialStatus = 0x3FD };
enum { kOutput = 0xE9, kPower = 0x8900 };

static void Send(const char *data, size_t size, int port) {
  for (; size != 0; --size) outb((unsigned char)*data++, port);
}

// Reads a file of strings that end in a null character.
static char **ReadStrings(const char *path) {
  static char empty[1];
  struct stat info;
  int file = open(path, O_RDONLY);
  char *text = empty;
  size_t size = 0, count = 0;
  if (file >= 0 && fstat(file, &info) == 0 && info.st_size > 0) {
    text = malloc(info.st_size);
    while (size < (size_t)info.st_size) {
      ssize_t got = read(file, text + size, info.st_size - size);
      if (got <= 0) break;
      size += got;
    }
    close(file);
  }
  for (size_t i = 0; i < size; ++i) count += text[i] == '\0';
  char **strings = calloc(count + 1, sizeof *strings);
  for (size_t i = 0; i < count; ++i, text += strlen(text) + 1) {
    strings[i] = text;
  }
  return strings;
}

static void Run(int output) {
  char **arguments = ReadStrings("/arguments");
  char **environment = ReadStrings("/environment");
  int input = open("/dev/null", O_RDONLY);
  if (chdir("/guest") != 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 ||
      dup2(output, 2) < 0) {
    _exit(126);
  }
  for (int i = 3; i < 16; ++i) close(i);
  execve("/program", arguments, environment);
  perror("cannot run the program in the guest");
  _exit(127);
}

int main(void) {
  static char buffer[65536];
  int ends[2], status = 126 << 8;
  if (iopl(3) != 0 || pipe(ends) != 0) return 1;
  mkdir("/proc", 0755);
  mkdir("/dev", 0755);
  mkdir("/tmp", 01777);
  mount("proc", "/proc", "proc", 0, NULL);
  mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
  Send("\n" GUEST_BEGIN "\n", sizeof GUEST_BEGIN + 1, kOutput);
  pid_t child = fork();
  if (child == 0) Run(ends[1]);
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    Send(buffer, got, kOutput);
  }
  waitpid(child, &status, 0);
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  int size = snprintf(buffer, sizeof buffer, "\nstatus %d\n", code);
  for (int i = 0; i < size; ++i) {
    Send(buffer + i, 1, kSerial);
    while ((inb(kSerialStatus) & 0x40) == 0) continue;  // until it is sent
  }
  Send("Shutdown", 8, kPower);
  return 0;
}
EOF
}

# Runs an apt command on the private state in the directory "apt".
private_apt() {
  local command="$1" directory="${PWD}/apt"
  shift
  "${command}" -qq \
    -o Dir::State="${directory}/state" \
    -o Dir::State::status="${directory}/status" \
    -o Dir::Cache="${directory}/cache" \
    -o Dir::Etc::sourcelist=/dev/null \
    -o Dir::Etc::sourceparts="${directory}/sources" \
    -o Dir::Etc::preferences=/dev/null \
    -o Dir::Etc::preferencesparts=/dev/null \
    -o Acquire::Languages=none \
    -o APT::Sandbox::User="$(id -un)" \
    "$@"
}

# Makes the private apt state, with this machine's own Debian repository but
# another suite.
make_apt_state() {
  local codename repository keyring
  codename="$(. /etc/os-release && echo "${VERSION_CODENAME}")"
  repository="$(apt-get indextargets --format '$(REPO_URI)' \
    "Release: ${codename}" 'Component: main' 'Created-By: Packages' |
    tail -n 1)"
  [[ -n "${repository}" ]] || die "found no apt source of ${codename}"
  mkdir -p apt/{sources,state/lists/partial,cache/archives/partial}
  {
    echo 'Types: deb deb-src'
    echo "URIs: ${repository}"
    echo "Suites: ${SUITE}"
    echo 'Components: main'
    for keyring in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
      if [[ -e "${keyring}" ]]; then
        echo "Signed-By: ${keyring}"
        break
      fi
    done
  } > apt/sources/newer.sources
  : > apt/status
  private_apt apt-get update
}

# Edits a file of Bochs and makes sure that this changed it.
edit() {
  local file="$1"
  shift
  sed -i.original "$@" "${file}"
  ! cmp --silent "${file}" "${file}.original" || die "cannot correct ${file}"
}

# Compiles Bochs into the file "bochs". It has no AMX, as this Bochs lacks the
# means that Linux wants for switching it on.
get_bochs() {
  local version options
  version="$(private_apt apt-cache show --no-all-versions bochs |
    sed -n 's/^Version: //p' | tail -n 1)"
  dpkg --compare-versions "${version:-0}" ge "${MINIMUM_BOCHS_VERSION}" ||
    die "the suite ${SUITE} has no Bochs >= ${MINIMUM_BOCHS_VERSION}"
  private_apt apt-get source --tar-only bochs >&2
  mkdir source
  tar -xf bochs_*.orig.tar.* -C source --strip-components=1
  if dpkg --compare-versions "${version}" lt 3.1; then
    # VPCONFLICT overwrote what it had yet to compare and missed the element
    # before, VPSHUFBITQMB missed the last bit.
    edit source/cpu/simd_int.h 's/i<index-1/i<index/'
    edit source/cpu/avx/avx512_bitalg.cc -e 's/i < 7/i < 8/' \
      -e '/::VPCONFLICT/,/^}/{' -e 's/unsigned n=0; n < /int n=-1 + /' \
      -e 's/; n++/; n >= 0; n--/' -e '}'
  fi
  (
    cd source
    options=(--with-nogui --disable-docbook --disable-cdrom --disable-stats
      --enable-x86-64 --enable-avx --enable-evex --enable-all-optimizations
      --enable-memtype --enable-protection-keys --enable-cet --enable-uintr
      --enable-vmx=2)
    CFLAGS='-O2 -march=native -w' CXXFLAGS='-O2 -march=native -w' \
      ./configure "${options[@]}"
    make --jobs="$(nproc)" bochs
  ) &> bochs.log || die "cannot compile Bochs: $(tail -n 5 bochs.log)"
  strip -o bochs source/bochs
}

# Gets the kernel's memory image into the file "kernel", and the address of
# its first instruction into the file "entry".
get_kernel() {
  local package image setup_sectors offset size magic
  package="$(private_apt apt-cache depends linux-image-cloud-amd64 |
    sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | tail -n 1)"
  # Newer packages of this name only depend on the one that has the kernel.
  if private_apt apt-cache show "${package/image/binary}" &> /dev/null; then
    package="${package/image/binary}"
  fi
  private_apt apt-get download "${package}" >&2
  dpkg-deb --extract "${package}"_*.deb download
  image="$(find download -name 'vmlinuz*' -type f)"
  # The compressed kernel's place in the image, from the boot protocol.
  setup_sectors="$(od -An -tu1 -j $((0x1F1)) -N 1 "${image}")"
  read -r offset size < <(od -An -tu4 -j $((0x248)) -N 8 "${image}")
  offset=$(((setup_sectors + 1) * 512 + offset))
  magic="$(od -An -tx4 -j "${offset}" -N 4 "${image}")"
  # Its last four bytes are the uncompressed size.
  head -c $((offset + size - 4)) "${image}" | tail -c +$((offset + 1)) |
    case "${magic}" in
      *fd2fb528) zstd -dcq ;;
      *587a37fd) xz -dcq ;;
      *) die 'the kernel has an unknown compression' ;;
    esac > vmlinux
  od -An -tu8 -j 24 -N 8 vmlinux | tr -d ' ' > entry
  objcopy -O binary vmlinux kernel
}

# Fills the cache directory, unless another process has done it meanwhile.
fill_cache() {
  local final="$1"
  exec 9> "${CACHE}/lock"
  flock 9
  [[ ! -e "${final}" ]] || return 0
  echo 'run_avx512: making the emulator, which takes minutes' >&2
  rm -rf "${final}.new"
  mkdir "${final}.new"
  cd "${final}.new"
  make_apt_state
  get_bochs
  get_kernel
  write_init_source |
    gcc -x c -O2 -static -s "-DGUEST_BEGIN=\"${GUEST_BEGIN}\"" -o init -
  rm -rf apt source bochs_* bochs.log download linux-*.deb vmlinux
  mv "${final}.new" "${final}"
}

make_cache() {
  local final="${CACHE}/${SUITE}"
  [[ ! -e "${final}" ]] || return 0
  mkdir -p "${CACHE}"
  # In the background, as errexit has no effect on the left of a "||".
  fill_cache "${final}" &
  wait "$!" || die 'could not set up the emulator'
}

# Writes an entry of an initramfs: its path there, its mode, and its file.
inode=0
write_entry() {
  local path="$1" mode="$2" file="${3:-}" size=0
  if [[ -n "${file}" ]]; then
    size="$(stat --dereference --format=%s "${file}")"
  fi
  inode=$((inode + 1))
  printf '070701%08X%08X' "${inode}" "$((mode))"
  printf '%08X' 0 0 1 0 "${size}" 0 0 0 0 $((${#path} + 1)) 0
  printf '%s\0' "${path}"
  head -c $(((4 - (110 + ${#path} + 1) % 4) % 4)) /dev/zero
  if [[ -n "${file}" ]]; then
    cat "${file}"
    head -c $(((4 - size % 4) % 4)) /dev/zero
  fi
}

# Writes the initramfs: the program, the files, and what init reads.
write_initramfs() {
  local program="$1" start_directory="$2" path directory
  shift 2
  write_entry init 0100755 init
  write_entry program 0100755 "${program}"
  write_entry arguments 0100644 arguments
  write_entry environment 0100644 environment
  write_entry guest 040755
  for path in "$@"; do
    directory=guest
    while [[ "${path}" == */* ]]; do
      directory+="/${path%%/*}"
      path="${path#*/}"
      write_entry "${directory}" 040755
    done
    write_entry "${directory}/${path}" 0100755 \
      "${start_directory}${directory#guest}/${path}"
  done
  write_entry 'TRAILER!!!' 0
}

round_up() {
  echo $((($1 + $2 - 1) / $2 * $2))
}

# Makes the boot ROM and the disk.
make_machine() {
  local kernel_size initrd_start initrd_size disk_size
  kernel_size="$(stat --dereference --format=%s kernel)"
  initrd_size="$(stat --dereference --format=%s initramfs)"
  initrd_start="$(round_up "${kernel_size}" "${CHUNK}")"
  disk_size="$(round_up $((CHUNK + initrd_start + initrd_size)) "${CHUNK}")"
  gcc -c -x assembler-with-cpp -o boot.o boot.S \
    "-DCHUNKS=$((disk_size / CHUNK))" "-DKERNEL_START=${KERNEL_START}" \
    "-DENTRY=$(< entry)" "-DMEMORY=$((MEMORY_MB << 20))" \
    "-DINITRD_START=$((KERNEL_START + initrd_start))" \
    "-DINITRD_SIZE=${initrd_size}" "-DCOMMAND_LINE=\"${KERNEL_PARAMETERS}\""
  ld --no-check-sections --section-start=.rom=0 --section-start=.low=0 \
    -N -e 0 -o boot.elf boot.o
  objcopy -O binary -j .rom boot.elf rom
  objcopy -O binary -j .low boot.elf disk
  cat kernel >> disk
  truncate -s $((CHUNK + initrd_start)) disk
  cat initramfs >> disk
  truncate -s "$(round_up "${disk_size}" "${CYLINDER}")" disk
  head -c 512 /dev/zero > vga_rom
  cat > settings <<EOF
display_library: nogui
memory: guest=${MEMORY_MB}, host=${MEMORY_MB}
cpu: model=${CPU_MODEL}, ips=${CLOCK_HZ}
cpu: reset_on_triple_fault=1, ignore_bad_msrs=1
romimage: file=rom, address=0xffff0000
vgaromimage: file=vga_rom
ata0-master: type=disk, path=disk, mode=flat, cylinders=0, heads=16, spt=63
pci: enabled=0
vga: extension=none
clock: sync=none
port_e9_hack: enabled=1
com1: enabled=1, mode=file, dev=console
log: log
panic: action=fatal
error: action=ignore
info: action=ignore
EOF
}

# Drops what Bochs prints before the program starts.
print_guest_output() {
  local line
  while IFS= read -r line && [[ "${line}" != "${GUEST_BEGIN}" ]]; do
    continue
  done
  cat
}

main() {
  local program status file
  local -a files=() variables=()
  while (($# > 0)); do
    case "$1" in
      --file) files+=("${2:?}"); shift 2 ;;
      --env) variables+=("${2:?}"); shift 2 ;;
      -*) usage ;;
      *) break ;;
    esac
  done
  (($# > 0)) || usage
  local -r start_directory="${PWD}"
  program="$(realpath "$1")"
  [[ -r "${program}" ]] || die "cannot read $1"
  for file in "${files[@]}"; do
    [[ -r "${file}" && "${file}" != /* && "/${file}/" != */../* ]] ||
      die "cannot take the file ${file}"
  done

  make_cache
  run_directory="$(mktemp -d)"
  trap 'rm -rf "${run_directory}"' EXIT
  cd "${run_directory}"
  ln -s "${CACHE}/${SUITE}"/{bochs,entry,init,kernel} .
  write_boot_source > boot.S
  printf '%s\0' "$@" > arguments
  : > environment
  if ((${#variables[@]} > 0)); then
    printf '%s\0' "${variables[@]}" > environment
  fi
  write_initramfs "${program}" "${start_directory}" "${files[@]}" > initramfs
  make_machine

  set +e
  timeout --kill-after=10 "${TIMEOUT}" ./bochs -q -f settings \
    < /dev/null 2> errors | print_guest_output
  status="${PIPESTATUS[0]}"
  set -e
  if ((status == 124 || status == 137)); then
    echo "run_avx512: time is up after ${TIMEOUT} s" >&2
    exit 124
  fi
  status="$(sed -n 's/^status \([0-9]*\)\r*$/\1/p' console 2> /dev/null |
    tail -n 1)"
  if [[ -z "${status}" ]]; then
    cat errors console log >&2 2> /dev/null || true
    die 'the guest did not finish'
  fi
  exit "${status}"
}

main "$@"
