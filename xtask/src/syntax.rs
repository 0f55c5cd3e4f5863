//! What the rules ask of a Rust syntax tree: its modules, the names it uses, its functions.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, ImplItem, Item, ItemImpl, ItemUse, Signature, Type, UseTree};

use crate::tree::resolve;

/// A `mod name;` line.
#[derive(Debug)]
pub(crate) struct Module {
    /// Names of the inline modules around it, outermost first, then its own.
    names: Vec<String>,
    /// The value of `#[path = …]`.
    path: Option<String>,
    /// Whether it, or a module around it, is below `#[cfg(test)]`.
    pub(crate) in_test: bool,
}

impl Module {
    /// Where the compiler looks for its file; `parent` holds the line, and may be a crate root.
    pub(crate) fn candidates(&self, parent: &str, parent_is_root: bool) -> Vec<String> {
        if let Some(path) = &self.path {
            return vec![resolve(parent, path)];
        }
        let stem = parent.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        let below = if parent_is_root || stem == "mod" { String::new() } else { format!("{stem}/") };
        let name = self.names.join("/");
        vec![resolve(parent, &format!("{below}{name}.rs")), resolve(parent, &format!("{below}{name}/mod.rs"))]
    }
}

/// All `mod name;` lines, also those inside inline modules.
pub(crate) fn modules(ast: &syn::File) -> Vec<Module> {
    let mut found = Vec::new();
    collect_modules(&ast.items, &[], false, &mut found);
    found
}

fn collect_modules(items: &[Item], around: &[String], in_test: bool, found: &mut Vec<Module>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let names: Vec<String> = around.iter().cloned().chain([module.ident.to_string()]).collect();
        let in_test = in_test || is_test(&module.attrs);
        match &module.content {
            Some((_, items)) => collect_modules(items, &names, in_test, found),
            None => found.push(Module { names, path: path_attribute(&module.attrs), in_test }),
        }
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) =
        &attribute.meta.require_name_value().ok()?.value
    else {
        return None;
    };
    Some(path.value())
}

/// A path, or a macro's path with `!`, as it is written in the code.
#[derive(Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// The names that the code uses, those in imports written out in full; tests are left out.
pub(crate) fn names(ast: &syn::File) -> Vec<Name> {
    let mut names = Names::default();
    names.visit_file(ast);
    names.found
}

#[derive(Default)]
struct Names {
    found: Vec<Name>,
}

impl Names {
    fn add(&mut self, text: String, span: Span) {
        self.found.push(Name { text, line: span.start().line });
    }

    fn add_use(&mut self, prefix: &str, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.add_use(&format!("{prefix}{}::", path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => {
                self.add(prefix.trim_end_matches(':').into(), name.ident.span());
            }
            UseTree::Name(name) => self.add(format!("{prefix}{}", name.ident), name.ident.span()),
            UseTree::Rename(name) => self.add(format!("{prefix}{}", name.ident), name.ident.span()),
            UseTree::Glob(glob) => self.add(format!("{prefix}*"), glob.span()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(prefix, tree)),
        }
    }

    /// Tokens of a macro call are not parsed: take runs of `name::name` and `name!`.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Option<(String, Span)> = None;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => match &mut path {
                    Some((text, _)) if text.ends_with("::") => text.push_str(&ident.to_string()),
                    _ => {
                        let started = Some((ident.to_string(), ident.span()));
                        self.add_path(std::mem::replace(&mut path, started));
                    }
                },
                TokenTree::Punct(punct) if matches!(punct.as_char(), ':' | '!') && path.is_some() => {
                    if let Some((text, _)) = &mut path {
                        text.push(punct.as_char());
                    }
                }
                TokenTree::Group(group) => {
                    self.add_path(path.take());
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add_path(path.take()),
            }
        }
        self.add_path(path);
    }

    fn add_path(&mut self, path: Option<(String, Span)>) {
        if let Some((text, span)) = path {
            self.add(text.trim_end_matches(':').into(), span);
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let test = matches!(item, ImplItem::Fn(function) if is_test(&function.attrs));
        if !test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_use("", &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(join(path), path.span());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add(format!("{}!", join(&call.path)), call.path.span());
        self.add_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    /// `pub(super)` says who may use an item; it imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

fn join(path: &syn::Path) -> String {
    let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    segments.join("::")
}

/// A function or method with a body.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// All that it takes, `self` and the members of tuples too.
    pub(crate) arguments: usize,
    /// Whether a trait, not its author, decides what it takes.
    pub(crate) of_trait: bool,
    /// The line of the opening and of the closing brace.
    pub(crate) body: (usize, usize),
    /// Whether it is only compiled for tests.
    pub(crate) in_test: bool,
}

/// All functions, also those inside others.
pub(crate) fn functions(ast: &syn::File) -> Vec<Function> {
    let mut functions = Functions::default();
    functions.visit_file(ast);
    functions.found
}

#[derive(Default)]
struct Functions {
    found: Vec<Function>,
    in_test: bool,
    of_trait: bool,
}

impl Functions {
    fn add(&mut self, signature: &Signature, block: &syn::Block, attributes: &[Attribute]) {
        self.found.push(Function {
            name: signature.ident.to_string(),
            line: signature.ident.span().start().line,
            arguments: signature.inputs.iter().map(arguments).sum(),
            of_trait: self.of_trait,
            body: (block.brace_token.span.open().start().line, block.brace_token.span.close().end().line),
            in_test: self.in_test || is_test(attributes),
        });
    }
}

/// How many values come by a parameter: a tuple is as many as its members.
fn arguments(parameter: &FnArg) -> usize {
    fn values(ty: &Type) -> usize {
        match ty {
            Type::Tuple(tuple) => tuple.elems.iter().map(values).sum(),
            Type::Reference(reference) => values(&reference.elem),
            Type::Paren(inner) => values(&inner.elem),
            _ => 1,
        }
    }
    match parameter {
        FnArg::Receiver(_) => 1,
        FnArg::Typed(typed) => values(&typed.ty),
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item(&mut self, item: &'ast Item) {
        let outside = self.in_test;
        self.in_test |= is_test(item_attributes(item));
        visit::visit_item(self, item);
        self.in_test = outside;
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let outside = std::mem::replace(&mut self.of_trait, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.of_trait = outside;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let outside = std::mem::replace(&mut self.of_trait, false);
        self.add(&item.sig, &item.block, &item.attrs);
        visit::visit_item_fn(self, item);
        self.of_trait = outside;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block, &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block, &item.attrs);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// All identifiers, also those inside macro calls.
pub(crate) fn identifiers(tokens: TokenStream, each: &mut dyn FnMut(&Ident)) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => each(&ident),
            TokenTree::Group(group) => identifiers(group.stream(), each),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Whether one of the attributes is `#[test]` or a `#[cfg(…)]` that names `test` without `not`.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let cfg = path.is_ident("cfg") && {
            let mut words = Vec::new();
            if let Ok(list) = attribute.meta.require_list() {
                identifiers(list.tokens.clone(), &mut |ident| words.push(ident.to_string()));
            }
            words.iter().any(|word| word == "test")
                && !words.iter().any(|word| word == "not" || word == "any")
        };
        cfg || path.segments.last().is_some_and(|segment| segment.ident == "test")
    })
}

/// The attributes of an item of any kind.
pub(crate) fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(code: &str) -> Vec<String> {
        names(&syn::parse_file(code).unwrap()).into_iter().map(|name| name.text).collect()
    }

    #[test]
    fn imports_are_written_out() {
        let found = texts("use std::{net::{self, IpAddr}, fs as files, os::*};");
        assert_eq!(found, ["std::net", "std::net::IpAddr", "std::fs", "std::os::*"]);
    }

    #[test]
    fn names_inside_macro_calls_count_and_those_in_tests_do_not() {
        let found =
            texts("fn a() { log!(\"x\", std::fs::read(b)); } #[cfg(test)] mod t { fn c() { dbg!(1); } }");
        assert!(found.contains(&"log!".into()));
        assert!(found.contains(&"std::fs::read".into()));
        assert!(!found.contains(&"dbg!".into()));
    }

    #[test]
    fn visibility_imports_nothing() {
        assert_eq!(texts("pub(super) const A: u8 = 1; pub(in crate::b) fn c() {}"), ["u8"]);
    }

    #[test]
    fn a_call_inside_a_macro_call_is_a_macro_name() {
        assert!(texts("fn a() { run!(todo!()); }").contains(&"todo!".into()));
    }

    #[test]
    fn members_of_tuples_are_arguments() {
        let ast =
            syn::parse_file("fn a(b: u8, (c, d): (u8, &(u8, Vec<(u8, u8)>)), e: [u8; 2], f: ()) {}").unwrap();
        assert_eq!(functions(&ast)[0].arguments, 5);
    }

    #[test]
    fn functions_know_their_arguments_and_whose_they_are() {
        let ast = syn::parse_file(
            "impl T for S { fn m(&self, a: u8) { fn inner() {} } }\n#[cfg(test)] mod t { fn q() {} }\nfn o() { fn i() {} }",
        )
        .unwrap();
        let found = functions(&ast);
        let summary: Vec<_> =
            found.iter().map(|f| (f.name.as_str(), f.arguments, f.of_trait, f.in_test)).collect();
        assert_eq!(
            summary,
            [
                ("m", 2, true, false),
                ("inner", 0, false, false),
                ("q", 0, false, true),
                ("o", 0, false, false),
                ("i", 0, false, false)
            ]
        );
    }

    #[test]
    fn only_test_configurations_are_tests() {
        let ast = syn::parse_file("#[cfg(not(test))] fn a() {} #[cfg(all(unix, test))] fn b() {}").unwrap();
        let found: Vec<bool> = ast.items.iter().map(|item| is_test(item_attributes(item))).collect();
        assert_eq!(found, [false, true]);
    }
}
