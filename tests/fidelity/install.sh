#!/bin/sh
# Installs a Slurm with accounting from Debian's packages, without starting anything. As root; what is there stays.
set -eu
want="slurm-client slurmctld slurmd munge slurmdbd slurm-wlm-mysql-plugin mariadb-server"
miss=$(for package in $want; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || echo "$package"
done)
[ -n "$miss" ] || exit 0
if [ ! -e /usr/sbin/policy-rc.d ]; then # no package's own script may start a daemon
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get update -qq
# shellcheck disable=SC2086  # a list of words
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $miss >/dev/null
