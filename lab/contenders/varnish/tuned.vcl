vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "{{backend_port}}";
}

sub vcl_backend_response {
    set beresp.ttl = 1h;
    set beresp.do_gzip = false;
    set beresp.do_gunzip = false;
}

{{passing}}
