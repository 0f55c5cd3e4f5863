vcl 4.1;

# As the package has it, with our backend.
backend default {
    .host = "127.0.0.1";
    .port = "{{backend_port}}";
}

{{passing}}
