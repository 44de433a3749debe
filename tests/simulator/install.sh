#!/bin/sh
# Installs Chromium and its driver from Debian's packages. As root; what is there stays.
set -eu
[ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ] && exit 0
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null
