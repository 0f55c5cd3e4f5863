<?php
const DATABASE_SOCKET = '{{mariadb}}/mariadb.sock';
const REDIS_PORT = {{redis_port}};
