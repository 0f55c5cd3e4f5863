<?php
const DATABASE_SOCKET = '{{mariadb}}/mariadb.sock';

// A database that refuses the connection is an error of the server, with status 500.
function database(): mysqli
{
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    $database = new mysqli('localhost', 'lab', 'lab', 'lab', 0, DATABASE_SOCKET);
    $database->set_charset('utf8mb4');
    return $database;
}
