# 0: the package is removed; an upgrade passes 1.
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now fulmar.service
fi
