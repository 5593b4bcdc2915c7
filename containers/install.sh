#!/bin/sh -e
# Installs packages into an image's environment: install.sh <words for uv pip install>. The installer goes as it came:
# nothing installs anything once the image is built.
export UV_SYSTEM_CERTS=1 VIRTUAL_ENV=/opt/nightshift
python3 -m venv /opt/uv
/opt/uv/bin/pip install --no-cache-dir -c /opt/nightshift/py3.11.txt uv
[ -e /opt/nightshift/bin ] || python3 -m venv --without-pip /opt/nightshift
/opt/uv/bin/uv pip install --no-cache "$@"
find /opt/nightshift -type d -regex '.*/\(numpy\|pandas\|pyarrow\|scipy\|sklearn\|statsmodels\|sympy\)/.*/?tests' \
  -prune -exec rm -r {} +
rm -r /opt/uv
