vcl 4.1;

{{import}}

{{access}}

backend default {
    .host = "127.0.0.1";
    .port = "{{backend_port}}";
}

sub vcl_recv {
    {{receive}}
}

sub vcl_pipe {
    if (req.http.upgrade) {
        set bereq.http.upgrade = req.http.upgrade;
        set bereq.http.connection = req.http.connection;
    }
}

sub vcl_backend_response {
    {{response}}
}
