//! Directives and modules that are met in nginx configurations and are not nginx's own.

use std::sync::LazyLock;

use super::table;
use crate::diagnostic::Diagnostic;

/// A directive of a third-party module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// The name; `*` at an end stands for any text.
    pub pattern: &'static str,
    /// Where it comes from.
    pub product: &'static str,
    /// The nearest thing here.
    pub instead: &'static str,
}

impl Foreign {
    /// The refusal of a directive, without its place.
    pub fn diagnostic(&self, name: &str) -> Diagnostic {
        let Foreign { product, instead, .. } = self;
        Diagnostic::emerg(format!("\"{name}\" belongs to {product}, which is not part of Fulmar"))
            .hint(*instead)
    }

    fn matches(&self, name: &str) -> bool {
        match (self.pattern.strip_prefix('*'), self.pattern.strip_suffix('*')) {
            (Some(_), Some(_)) => name.contains(self.pattern.trim_matches('*')),
            (Some(end), None) => name.ends_with(end),
            (None, Some(start)) => name.starts_with(start),
            (None, None) => name == self.pattern,
        }
    }
}

/// The foreign directive of this name, for names that [`entries`](super::entries) does not have.
pub fn foreign(name: &str) -> Option<&'static Foreign> {
    FOREIGN.iter().find(|foreign| foreign.matches(name))
}

/// What a file named by `load_module` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loadable {
    /// A module of nginx. Its directives have entries, so that loading it may be taken in silence where
    /// modules own them, and with a warning otherwise.
    Own(&'static str),
    /// A third-party module, by its name. Its directives are rejected where they are used.
    Foreign(&'static str),
}

impl Loadable {
    /// What to tell about loading a file whose module is not built in; the module's directives speak for
    /// themselves.
    pub fn diagnostic(&self) -> Diagnostic {
        let (Loadable::Own(module) | Loadable::Foreign(module)) = self;
        Diagnostic::warn(format!("\"load_module\" has no effect ({module} is not built in)"))
    }
}

/// The module in a file that `load_module` names, by the last part of its path; `None` for an
/// unknown module.
pub fn module_of_file(path: &str) -> Option<Loadable> {
    let file = path.rsplit('/').next()?;
    let at = LOADABLE.binary_search_by_key(&file, |(name, _)| *name).ok()?;
    Some(LOADABLE[at].1)
}

fn row_of_foreign(row: &'static str) -> Option<Foreign> {
    let mut fields = row.split('\t');
    Some(Foreign { pattern: fields.next()?, product: fields.next()?, instead: fields.next()? })
}

fn row_of_loadable(row: &'static str) -> Option<(&'static str, Loadable)> {
    let mut fields = row.split('\t');
    let (file, kind, module) = (fields.next()?, fields.next()?, fields.next()?);
    match kind {
        "own" => Some((file, Loadable::Own(module))),
        "foreign" => Some((file, Loadable::Foreign(module))),
        _ => None,
    }
}

static FOREIGN: LazyLock<Vec<Foreign>> =
    LazyLock::new(|| table::rows(table::FOREIGN).filter_map(row_of_foreign).collect());

static LOADABLE: LazyLock<Vec<(&'static str, Loadable)>> =
    LazyLock::new(|| table::rows(table::LOADABLE).filter_map(row_of_loadable).collect());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_row_is_read() {
        assert_eq!(FOREIGN.len(), table::rows(table::FOREIGN).count());
        assert_eq!(LOADABLE.len(), table::rows(table::LOADABLE).count());
        assert!(LOADABLE.is_sorted_by_key(|(file, _)| *file));
    }

    #[test]
    fn no_directive_of_nginx_is_foreign() {
        for name in catalogue::names() {
            assert_eq!(foreign(name), None, "{name}");
        }
    }

    #[test]
    fn patterns() {
        let product = |name| foreign(name).map(|foreign| foreign.product);
        assert_eq!(product("unbrotli"), Some("ngx_brotli"));
        assert_eq!(product("unbrotli_buffers"), Some("ngx_brotli"));
        assert_eq!(product("content_by_lua_block"), Some("the Lua module"));
        assert_eq!(product("nchan_publisher"), Some("nchan"));
        assert_eq!(product("ssl"), Some("an nginx of former years"));
        assert_eq!(product("ssl_protocol"), None);
        assert_eq!(product("lisen"), None);
    }

    #[test]
    fn modules_by_file() {
        let image = "/usr/lib64/nginx/modules/ngx_http_image_filter_module.so";
        assert_eq!(module_of_file(image), Some(Loadable::Own("http_image_filter")));
        assert_eq!(
            module_of_file("modules/ngx_http_lua_module.so"),
            Some(Loadable::Foreign("the Lua module"))
        );
        assert_eq!(module_of_file("modules/mine.so"), None);
    }

    #[test]
    fn own_modules_have_directives() {
        for (file, loadable) in LOADABLE.iter() {
            let Loadable::Own(module) = loadable else { continue };
            assert!(catalogue::all().iter().any(|entry| entry.module == *module), "{file}: {module}");
        }
    }
}
