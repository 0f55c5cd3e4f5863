if [ ! -d /var/log/fulmar ]; then
	mkdir -m 0755 /var/log/fulmar
	chgrp adm /var/log/fulmar
fi
# As logrotate creates them: only root, the server and the group adm may read the addresses of clients.
for name in access error; do
	log=/var/log/fulmar/$name.log
	if [ ! -e "$log" ]; then
		(umask 0137 && : > "$log")
		chown www-data:adm "$log"
	fi
done
mkdir -p /etc/fulmar/conf.d /etc/fulmar/sites-enabled
# Only at the first installation, so that a removed link stays removed.
if [ "$1" = 1 ] && [ ! -e /etc/fulmar/sites-enabled/default ]; then
	ln -s ../sites-available/default /etc/fulmar/sites-enabled/default
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ "$1" = 1 ]; then systemctl preset fulmar.service; else systemctl try-restart fulmar.service; fi
fi
