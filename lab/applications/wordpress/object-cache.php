<?php
// WordPress's objects in Redis: one connection a request, and what a request has read stays in its memory.
final class ObjectCache
{
    private Redis $redis;
    private array $known = [];
    private array $local = [];

    public function __construct()
    {
        $this->redis = new Redis();
        $this->redis->connect('127.0.0.1', REDIS_PORT);
        $this->redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
    }

    public function keepLocal(array $groups): void
    {
        $this->local += array_fill_keys($groups, true);
    }

    public function get($key, $group, bool $force, ?bool &$found)
    {
        $name = $this->name($key, $group);
        if (!isset($this->known[$name]) || $force && !isset($this->local[$group])) {
            $stored = isset($this->local[$group]) ? false : $this->redis->get($name);
            $this->known[$name] = is_array($stored) ? $stored : [];
        }
        $found = $this->known[$name] !== [];
        $value = $this->known[$name][0] ?? false;
        return is_object($value) ? clone $value : $value;
    }

    public function set($key, $value, $group, int $seconds): bool
    {
        $name = $this->name($key, $group);
        $this->known[$name] = [is_object($value) ? clone $value : $value];
        if (isset($this->local[$group])) {
            return true;
        }
        return $this->redis->set($name, $this->known[$name], $seconds > 0 ? ['ex' => $seconds] : []);
    }

    public function delete($key, $group): bool
    {
        $name = $this->name($key, $group);
        $this->known[$name] = [];
        return isset($this->local[$group]) || $this->redis->del($name) > 0;
    }

    public function flush(): bool
    {
        $this->known = [];
        return $this->redis->flushDB();
    }

    private function name($key, $group): string
    {
        return ($group ?: 'default') . ':' . $key;
    }
}

function wp_cache_init()
{
    $GLOBALS['wp_object_cache'] = new ObjectCache();
}

function wp_cache_get($key, $group = '', $force = false, &$found = null)
{
    return $GLOBALS['wp_object_cache']->get($key, $group, $force, $found);
}

function wp_cache_set($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set($key, $data, $group, (int) $expire);
}

function wp_cache_add($key, $data, $group = '', $expire = 0)
{
    wp_cache_get($key, $group, false, $found);
    return !$found && !wp_suspend_cache_addition() && wp_cache_set($key, $data, $group, $expire);
}

function wp_cache_replace($key, $data, $group = '', $expire = 0)
{
    wp_cache_get($key, $group, false, $found);
    return $found && wp_cache_set($key, $data, $group, $expire);
}

function wp_cache_delete($key, $group = '')
{
    return $GLOBALS['wp_object_cache']->delete($key, $group);
}

function wp_cache_incr($key, $offset = 1, $group = '')
{
    $value = wp_cache_get($key, $group, false, $found);
    if (!$found) {
        return false;
    }
    $value = max(0, (int) $value + (int) $offset);
    wp_cache_set($key, $value, $group);
    return $value;
}

function wp_cache_decr($key, $offset = 1, $group = '')
{
    return wp_cache_incr($key, -$offset, $group);
}

function wp_cache_flush()
{
    return $GLOBALS['wp_object_cache']->flush();
}

function wp_cache_add_non_persistent_groups($groups)
{
    $GLOBALS['wp_object_cache']->keepLocal((array) $groups);
}

// There is one site.
function wp_cache_add_global_groups($groups)
{
}

function wp_cache_close()
{
    return true;
}
