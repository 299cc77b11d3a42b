#!/bin/sh
# SPDX-License-Identifier: MIT
# certificates.sh FOLDER NAME[=ALTERNATIVE,...]...: an authority in FOLDER (made once) and a certificate and key for each
# name, for clients and servers alike. An alternative is a DNS name, or an address where it looks like one.
#   deploy/certificates.sh deploy/kubernetes/tls etcd='*.etcd,*.etcd.cheetah.svc,etcd.cheetah.svc,localhost,127.0.0.1' \
#     nats='*.nats,*.nats.cheetah.svc,nats.cheetah.svc,localhost,127.0.0.1'
# Run it again to renew a certificate; keep ca.key where none of the machines is.
set -eu
[ $# -ge 2 ] || { sed -n '3,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
shift
umask 077
mkdir -p "$folder"
key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
if [ ! -f "$folder/ca.key" ]; then
  # shellcheck disable=SC2086
  openssl req -x509 $key -days 3650 -subj "/CN=cheetah services" -keyout "$folder/ca.key" -out "$folder/ca.pem" 2>/dev/null
fi
for one in "$@"; do
  name=${one%%=*}
  names="DNS:$name"
  if [ "$name" != "$one" ]; then
    names=$(printf '%s' "${one#*=}" | tr ',' '\n' |
      sed -E 's/^([0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*)$/IP:\1/; t; s/^/DNS:/' | paste -sd, -)
  fi
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$names" >"$folder/$name.ext"
  # shellcheck disable=SC2086
  openssl req $key -subj "/CN=$name" -keyout "$folder/$name.key" -out "$folder/$name.csr" 2>/dev/null
  openssl x509 -req -in "$folder/$name.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -CAcreateserial -days 365 \
    -extfile "$folder/$name.ext" -out "$folder/$name.pem" 2>/dev/null
  rm "$folder/$name.csr" "$folder/$name.ext"
done
