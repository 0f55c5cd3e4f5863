CREATE DATABASE lab;
GRANT ALL ON lab.* TO lab@localhost IDENTIFIED BY 'lab';
