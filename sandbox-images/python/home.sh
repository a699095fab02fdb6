# Makes, at build time, what each sandbox's home starts as: a virtual environment of its own over the image's packages, so
# that what %pip installs stays in the sandbox, and matplotlib's list of fonts.
set -eu
home=/opt/cellgate/home

python3 -m venv --without-pip "$home/.venv"
# Scripts that know where they were made.
find "$home/.venv/bin" -name '[aA]ctivate*' -delete
for name in pip pip3; do
    # shellcheck disable=SC2016 # It is expanded where it runs.
    printf '#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n' > "$home/.venv/bin/$name"
    chmod 0755 "$home/.venv/bin/$name"
done
packages=$(echo "$home"/.venv/lib/python3*/site-packages)
shared=$(echo /opt/venv/lib/python3*/site-packages)
echo "import site; site.addsitedir('$shared')" > "$packages/shared.pth"

mkdir -p "$home/.config/matplotlib" "$home/.ipython"
MPLCONFIGDIR="$home/.config/matplotlib" /opt/venv/bin/python -c 'import matplotlib.font_manager'
# For any user in group 0.
chmod -R g=u "$home"
