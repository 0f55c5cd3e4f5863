#!/bin/sh
# Writes an OCI image archive without a container engine: image.sh PROGRAM VERSION ARCHITECTURE ARCHIVE
#
# PROGRAM must be static, because the image has no C library. ARCHITECTURE is OCI's name, such as amd64. `podman load`
# and `docker load` read the archive. The same inputs give the same bytes. The files are those of the Containerfile.
set -eu

program=$1 version=$2 architecture=$3 archive=$4
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
image=$work/image
mkdir -p "$root/usr/sbin" "$root/usr/share/fulmar" "$root/etc/fulmar/conf.d" "$root/etc/fulmar/templates" "$root/tmp" "$root/var/log/fulmar" "$image/blobs/sha256"

install -m 755 "$program" "$root/usr/sbin/fulmar"
for name in fastcgi.conf fastcgi_params proxy_params scgi_params uwsgi_params; do
  install -m 644 "$source/packaging/conf/$name" "$root/etc/fulmar/$name"
done
cp -R "$source/packaging/conf/snippets" "$root/etc/fulmar/snippets"
install -m 644 "$source/packaging/container.conf" "$root/etc/fulmar/fulmar.conf"
install -m 644 "$source/crates/conf/src/mime.types" "$root/etc/fulmar/mime.types"
cp -R "$source/packaging/html" "$root/usr/share/fulmar/html"
printf 'root:x:0:0::/:/\nwww-data:x:33:33::/:/\n' > "$root/etc/passwd"
printf 'root:x:0:\nwww-data:x:33:\n' > "$root/etc/group"
# Authorities of the machine that builds the image: Fulmar checks servers of ACME by them.
authorities=/etc/ssl/certs/ca-certificates.crt
if [ -e $authorities ]; then install -D -m 644 $authorities "$root$authorities"; fi
chmod -R u+rwX,go+rX,go-w "$root"
chmod 1777 "$root/tmp"

# All times are the start of 1970, so that equal inputs give equal archives.
pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf "$2" .; }
digest() { sha256sum "$1" | cut -d ' ' -f 1; }
# Moves a file into the image, under the name of its digest, and prints the descriptor that refers to it.
blob() {
  sum=$(digest "$1")
  size=$(stat -c %s "$1")
  mv "$1" "$image/blobs/sha256/$sum"
  printf '{"mediaType":"%s","digest":"sha256:%s","size":%s%s}' "$2" "$sum" "$size" "${3:-}"
}

pack "$root" "$work/layer.tar"
layer_id=$(digest "$work/layer.tar")
gzip -n -9 "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)

cat > "$work/config.json" <<END
{"created":"1970-01-01T00:00:00Z","architecture":"$architecture","os":"linux","config":{"User":"www-data",
"ExposedPorts":{"8080/tcp":{}},"Entrypoint":["/usr/sbin/fulmar"],"Cmd":["-g","daemon off;"],"StopSignal":"SIGQUIT",
"Healthcheck":{"Test":["CMD","/usr/sbin/fulmar","status"]},
"Labels":{"org.opencontainers.image.title":"fulmar","org.opencontainers.image.version":"$version"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$layer_id"]}}
END
config=$(blob "$work/config.json" application/vnd.oci.image.config.v1+json)

printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}\n' \
  "$config" "$layer" > "$work/manifest.json"
name=",\"annotations\":{\"org.opencontainers.image.ref.name\":\"$version\"}"
manifest=$(blob "$work/manifest.json" application/vnd.oci.image.manifest.v1+json "$name")
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}\n' "$manifest" > "$image/index.json"
printf '{"imageLayoutVersion":"1.0.0"}\n' > "$image/oci-layout"
pack "$image" "$archive"
