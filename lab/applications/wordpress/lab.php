<?php
// The servers are asked by their addresses, and answer without a redirect to the name.
remove_filter('template_redirect', 'redirect_canonical');
// The hints depend on the name that a server gives itself.
remove_action('wp_head', 'wp_resource_hints', 2);
