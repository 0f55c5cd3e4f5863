# The worker's user, which the packaged configuration names as Debian's web servers do.
getent group www-data > /dev/null || groupadd --system www-data
getent passwd www-data > /dev/null || \
	useradd --system --gid www-data --home-dir /usr/share/fulmar --no-create-home --shell /sbin/nologin www-data
