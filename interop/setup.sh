#!/bin/sh
# Installs and builds the peers of the interoperability tests: omniORB (C++), omniORBpy (Python), JacORB (Java).
#
#   interop/setup.sh [omniorb] [omniorbpy] [jacorb]      all three when none is named
#
# Installs missing packages and rebuilds peers with changed sources; a second run does nothing. Builds in
# interop/.build, or in the folder that ISORB_INTEROP_BUILD names. Where a package cannot be installed, it
# lists what is missing and exits with code 3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${ISORB_INTEROP_BUILD:-$here/.build}
log=$build/log
peers=${*:-omniorb omniorbpy jacorb}
mkdir -p "$log"

missing=""
lacks() { missing="$missing
  $1"; }

# ---- packages ----

wanted=""
want() { # want PACKAGE TEST...
  package=$1
  shift
  "$@" >/dev/null 2>&1 || wanted="$wanted $package"
}
for peer in $peers; do
  case $peer in
    omniorb)
      want g++ command -v g++
      want make command -v make
      want omniidl command -v omniidl
      want libomniorb4-dev test -e /usr/include/omniORB4/CORBA.h
      want omniorb command -v catior
      want omniorb-nameserver command -v omniNames
      want omniorb-idl test -e /usr/share/idl/omniORB/orb.idl
      ;;
    omniorbpy)
      want python3 command -v python3
      want python3-venv python3 -c 'import ensurepip, venv'
      want omniorb-idl test -e /usr/share/idl/omniORB/orb.idl
      ;;
    jacorb)
      want default-jdk-headless command -v javac
      want maven command -v mvn
      ;;
    *)
      echo "setup.sh: no peer '$peer'" >&2
      exit 2
      ;;
  esac
done

if [ -n "$wanted" ]; then
  echo "setup.sh: installing$wanted"
  if [ "$(id -u)" != 0 ]; then
    echo "setup.sh: not root, cannot install" >&2
  else
    # shellcheck disable=SC2086
    "$here/../tools/apt-install" $wanted
  fi
fi

# Checks a requirement after the installation. Records it as missing if the test fails.
need() { # need PEER REQUIREMENT TEST...
  peer=$1 what=$2
  shift 2
  "$@" >/dev/null 2>&1 || { lacks "$what (for $peer)"; return 1; }
}

# ---- builds ----

# Runs a command. Prints the end of its log only if it fails.
run() { # run NAME COMMAND...
  name=$1
  shift
  "$@" >"$log/$name" 2>&1 && return 0
  echo "setup.sh: $name failed, the end of $log/$name:" >&2
  tail -n 15 "$log/$name" >&2
  return 1
}

# Succeeds if there is no stamp, or if a source is newer than the stamp.
stale() { # stale STAMP SOURCE...
  stamp=$1
  shift
  [ ! -e "$stamp" ] || [ -n "$(find "$@" -type f -newer "$stamp" 2>/dev/null | head -n 1)" ]
}

build_omniorb() {
  all=yes
  need omniorb g++ command -v g++ || all=no
  need omniorb make command -v make || all=no
  need omniorb omniidl command -v omniidl || all=no
  need omniorb libomniorb4-dev test -e /usr/include/omniORB4/CORBA.h || all=no
  need omniorb omniorb-nameserver command -v omniNames || all=no
  need omniorb omniorb-idl test -e /usr/share/idl/omniORB/orb.idl || all=no
  [ $all = yes ] || return
  run build-omniorb make -C "$here/cpp" -j2 OUT="$build/omniorb" || lacks "a working build of interop/cpp (for omniorb)"
}

# Writes an executable script that runs a command, for peers that are not executables themselves.
wrapper() { # wrapper FILE COMMAND
  printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$1" && chmod +x "$1"
}

build_omniorbpy() {
  all=yes
  need omniorbpy python3 command -v python3 || all=no
  need omniorbpy omniorb-idl test -e /usr/share/idl/omniORB/orb.idl || all=no
  [ $all = yes ] || return
  out=$build/omniorbpy
  mkdir -p "$out"
  if [ ! -x "$out/venv/bin/omniidl" ]; then
    run omniorbpy-venv python3 -m venv "$out/venv" || { lacks "python3-venv (for omniorbpy)"; return; }
    run omniorbpy-pip "$out/venv/bin/python" -m pip install --quiet "jeteve-omniorb==4.3.3.*" ||
      { lacks "jeteve-omniorb from PyPI (for omniorbpy)"; return; }
  fi
  if stale "$out/stamp" "$here/idl" "$here/setup.sh"; then
    rm -rf "$out/stubs" && mkdir "$out/stubs"
    run omniorbpy-idl "$out/venv/bin/omniidl" -bpython -I/usr/share/idl/omniORB -DINTEROP_NO_LONG_DOUBLE \
      -DINTEROP_NO_ATTRIBUTE_RAISES -C "$out/stubs" "$here/idl/interop.idl" ||
      { lacks "a working omniidl -bpython (for omniorbpy)"; return; }
    for program in server client ifr; do
      wrapper "$out/$program" "env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='$out/stubs:$here/python' '$out/venv/bin/python' '$here/python/$program.py'"
    done
    touch "$out/stamp"
  fi
}

build_jacorb() {
  all=yes
  need jacorb default-jdk-headless command -v javac || all=no
  need jacorb maven command -v mvn || all=no
  [ $all = yes ] || return
  out=$build/jacorb
  mkdir -p "$out"
  if stale "$out/lib/stamp" "$here/java/pom.xml"; then
    rm -rf "$out/lib"
    run jacorb-fetch mvn -q -B -f "$here/java/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$out/lib" ||
      { lacks "JacORB 3.9 from Maven Central (for jacorb)"; return; }
    touch "$out/lib/stamp"
  fi
  if stale "$out/stamp" "$here/idl" "$here/java" "$here/setup.sh" "$here/../idl/CosEventComm.idl" \
    "$here/../idl/CosEventChannelAdmin.idl"; then
    rm -rf "$out/stubs" "$out/classes"
    mkdir -p "$out/stubs" "$out/classes"
    run jacorb-idl java -cp "$out/lib/*" org.jacorb.idl.parser "-I$here/java/idl" -DINTEROP_NO_LONG_DOUBLE \
      -d "$out/stubs" "$here/idl/interop.idl" || { lacks "a working IDL compiler (for jacorb)"; return; }
    run jacorb-idl-values java -cp "$out/lib/*" org.jacorb.idl.parser "-I$here/java/idl" -DINTEROP_NO_VALUE_HOLDERS \
      -d "$out/stubs" "$here/idl/values.idl" || { lacks "a working IDL compiler (for jacorb's values)"; return; }
    for file in CosEventComm CosEventChannelAdmin; do
      # JacORB's compiler would put the classes with the prefix omg.org into two packages.
      run "jacorb-idl-$file" java -cp "$out/lib/*" org.jacorb.idl.parser "-I$here/../idl" -d "$out/stubs" \
        -i2jpackage CosEventComm:org.omg.CosEventComm -i2jpackage CosEventChannelAdmin:org.omg.CosEventChannelAdmin \
        "$here/../idl/$file.idl" || { lacks "a working IDL compiler (for jacorb's events)"; return; }
    done
    find "$out/stubs" "$here/java/src" -name '*.java' >"$out/sources"
    run jacorb-javac javac -nowarn -encoding UTF-8 -cp "$out/lib/*" -d "$out/classes" "@$out/sources" ||
      { lacks "a working build of interop/java (for jacorb)"; return; }
    for program in Server Client Events; do
      wrapper "$out/$(echo $program | tr SCE sce)" \
        "java -Xshare:auto -XX:TieredStopAtLevel=1 -cp '$out/classes:$out/lib/*' interop.$program"
    done
    wrapper "$out/groups" "java -XX:TieredStopAtLevel=1 -cp '$out/classes:$out/lib/*' interop.Groups"
    wrapper "$out/values" "java -XX:TieredStopAtLevel=1 -cp '$out/classes:$out/lib/*' interop.Values"
    wrapper "$out/ifr" "java -XX:TieredStopAtLevel=1 -cp '$out/classes:$out/lib/*' interop.Ifr"
    wrapper "$out/csi" "java -XX:TieredStopAtLevel=1 -cp '$out/classes:$out/lib/*' interop.Csi"
    wrapper "$out/naming" "java -cp '$out/classes:$out/lib/*' interop.Naming"
    touch "$out/stamp"
  fi
}

for peer in $peers; do
  case $peer in
    jacorb) build_jacorb ;;
    omniorbpy) build_omniorbpy ;;
    omniorb) build_omniorb ;;
  esac
done

if [ -n "$missing" ]; then
  echo "setup.sh: missing:$missing" >&2
  exit 3
fi
echo "setup.sh: ready in $build: $peers"
