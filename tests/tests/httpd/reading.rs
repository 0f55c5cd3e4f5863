//! The tree of a main configuration, and the one that Apache reads (`-t -D DUMP_CONFIG`).

use conf::apache::{self, Start};
use conf::{Disk, Node};
use std::path::Path;
use tests::apache::{dump, have_apache};
use tests::mutation::Dice;

/// Modules that are loaded before the file is read.
const LOADED: [&str; 7] = ["mpm_event", "authz_core", "macro", "rewrite", "env", "alias", "headers"];

/// Writes files, and reads `httpd.conf` among them by Apache and by Fulmar: both trees as text, or the places of the errors.
fn both(folder: &Path, files: &[(&str, &str)]) -> [Result<String, String>; 2] {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    [
        dump(folder, "httpd.conf", &LOADED).map(|text| tree_of(&text)).map_err(|told| place(&told)),
        ours(folder),
    ]
}

fn ours(folder: &Path) -> Result<String, String> {
    let load = |name: &&str| format!("LoadModule {name}_module {}/mod_{name}.so", tests::apache::MODULES);
    let start = Start {
        root: folder.to_owned(),
        defined: vec!["DUMP_CONFIG".to_owned()],
        before: LOADED.iter().map(load).collect(),
        after: ["ServerName localhost", "ErrorLog error.log", "PidFile pid"].map(str::to_owned).to_vec(),
        environment: &|name| (name == "PATH").then(|| std::env::var(name).unwrap_or_default().into_bytes()),
        is_built: &|_| true,
    };
    let read = apache::load(&Disk, &folder.join("httpd.conf"), &start);
    match read.loaded.error {
        None => Ok(shown(&read.loaded.nodes)),
        Some(error) => {
            let span = error.span.unwrap();
            Err(format!("line {} of {}", span.line, read.loaded.sources.path(span.file).display()))
        }
    }
}

/// The tree of a text that is already read, such as a dump.
fn tree_of(text: &str) -> String {
    let loaded = apache::parse(Path::new("dump"), text.into());
    assert_eq!(loaded.error, None, "{text}");
    shown(&loaded.nodes)
}

fn shown(nodes: &[Node]) -> String {
    let is_condition =
        |node: &&Node| node.name.to_string().to_ascii_lowercase().starts_with("if") && !node.is("If");
    let nodes = nodes.iter().filter(|node| !is_condition(node));
    let one = |node: &Node| {
        let words: Vec<_> = node.args.iter().map(|word| format!("[{word}]")).collect();
        let block = node.block.as_ref().map(|nodes| format!("{{\n{}}}", shown(nodes))).unwrap_or_default();
        format!("{}{}{block}\n", node.name, words.concat())
    };
    nodes.map(one).collect()
}

/// Where an error is, out of Apache's message.
fn place(told: &str) -> String {
    let text = told.split("Syntax error on ").nth(1).unwrap_or_else(|| panic!("{told}"));
    let place = text.split_once(':').map_or(text, |(place, _)| place);
    place.trim_end().to_owned()
}

#[test]
fn trees_are_apaches() {
    if !have_apache() {
        return;
    }
    let mut differences = String::new();
    for files in CASES {
        let folder = tempfile::tempdir().unwrap();
        let [apache, ours] = both(folder.path(), files);
        if ours != apache {
            differences += &format!("{files:?}\nApache: {apache:?}\nFulmar: {ours:?}\n\n");
        }
    }
    assert_eq!(differences, "");
}

/// Apache names the line that includes a file with too many or too few ends of sections; here the line in that file is named.
#[test]
fn a_file_closes_its_own_sections() {
    if !have_apache() {
        return;
    }
    for (files, expected) in [
        (
            [("httpd.conf", "SetEnv a 1\nInclude a.conf\n</Directory>\n"), ("a.conf", "\n<Directory />\n")],
            "line 2",
        ),
        ([("httpd.conf", "<Directory />\nInclude a.conf\n"), ("a.conf", "</Directory>\n")], "line 1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let [apache, ours] = both(folder.path(), &files);
        assert_eq!(ours.unwrap_err(), format!("{expected} of {}/a.conf", folder.path().display()));
        assert_eq!(apache.unwrap_err(), format!("line 2 of {}/httpd.conf", folder.path().display()));
    }
}

type Files = &'static [(&'static str, &'static str)];

const CASES: &[Files] = &[
    &[(
        "httpd.conf",
        "SetEnv A \"x y\" \nSetEnv 'b' \\\n  c\n#SetEnv \\\nD\n<Directory \"/a b\">\nOptions None\n</directory>\n",
    )],
    // Names.
    &[(
        "httpd.conf",
        "Define DOC /var/www\nDefine TWO \"a b\"\nDefine NONE\nSetEnv A ${DOC}/x${UNDEF}y\nSetEnv B \"${DOC} ${NONE}\"\n\
        SetEnv ${TWO}\nSetEnv C $${DOC}\nSetEnv D \\${DOC}\nSetEnv E ${DOC\nSetEnv F ${a:b}\nUnDefine DOC\nSetEnv G ${DOC}\nSetEnv P ${PATH}\n",
    )],
    &[("httpd.conf", "Define SECTION Directory\n<${SECTION} />\nOptions None\n</${SECTION}>\n")],
    &[("httpd.conf", "Define a:b 1\n")],
    &[("httpd.conf", "\nDefine\n")],
    &[("httpd.conf", "Define a b c\n")],
    // Conditions.
    &[(
        "httpd.conf",
        "Define X\n<IfDefine X>\nSetEnv A 1\n<IfDefine !Y>\nSetEnv B 1\n</IfDefine>\n</IfDefine>\n<IfDefine Y>\n<Nonsense here>\nno sense\n\
        </Nonsense>\n</IfDefine>\n<IfDefine !X>\nSetEnv C 1\n</ifdefine>\nSetEnv D 1\n",
    )],
    &[(
        "httpd.conf",
        "<IfModule mod_rewrite.c>\nSetEnv A 1\n</IfModule>\n<IfModule rewrite_module>\nSetEnv B 1\n</IfModule>\n<IfModule mod_none.c>\nSetEnv C 1\n\
        </IfModule>\n<IfModule !mod_none.c>\nSetEnv D 1\n</IfModule>\n<IfModule mod_proxy.c>\nSetEnv E 1\n</IfModule>\n<IfModule core.c>\nSetEnv F 1\n</IfModule>\n\
        <IfModule mpm_event_module>\nSetEnv G 1\n</IfModule>\n<IfModule event.c>\nSetEnv H 1\n</IfModule>\n<IfModule http_core.c>\nSetEnv I 1\n</IfModule>\n\
        <IfModule http_module>\nSetEnv J 1\n</IfModule>\n<IfModule rewrite>\nSetEnv K 1\n</IfModule>\n<IfModule rewrite_module and more>\nSetEnv L 1\n</IfModule>\n",
    )],
    &[(
        "httpd.conf",
        "<IfVersion >= 2.4>\nSetEnv A 1\n</IfVersion>\n<IfVersion < 2.4>\nSetEnv B 1\n</IfVersion>\n<IfVersion ~ ^2\\.4\\.>\nSetEnv C 1\n</IfVersion>\n\
        <IfVersion !~ ^2\\.4\\.>\nSetEnv D 1\n</IfVersion>\n<IfVersion = /^2/>\nSetEnv E 1\n</IfVersion>\n<IfVersion 2.4>\nSetEnv F 1\n</IfVersion>\n",
    )],
    &[
        (
            "httpd.conf",
            "<IfFile a>\nSetEnv A 1\n</IfFile>\n<IfFile \"!b\">\nSetEnv B 1\n</IfFile>\n<IfFile sub>\nSetEnv C 1\n</IfFile>\n<IfFile /etc/passwd>\n\
        SetEnv D 1\n</IfFile>\n",
        ),
        ("a", ""),
        ("sub/x", ""),
    ],
    &[(
        "httpd.conf",
        "<IfDirective RewriteRule>\nSetEnv A 1\n</IfDirective>\n<IfDirective ProxyPass>\nSetEnv B 1\n</IfDirective>\n<IfDirective !Nonsense>\n\
        SetEnv C 1\n</IfDirective>\n<IfSection Directory>\nSetEnv D 1\n</IfSection>\n<IfSection !Foo>\nSetEnv E 1\n</IfSection>\n<IfSection Proxy>\nSetEnv F 1\n</IfSection>\n",
    )],
    &[("httpd.conf", "<IfModule>\n</IfModule>\n")],
    &[("httpd.conf", "\n<IfModule core.c\n</IfModule>\n")],
    &[(
        "httpd.conf",
        "LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so\n<IfModule proxy_module>\nSetEnv A 1\n</IfModule>\n<IfDirective ProxyPass>\nSetEnv B 1\n</IfDirective>\n",
    )],
    // Sections.
    &[(
        "httpd.conf",
        "<Directory />\n<IfModule core.c>\nOptions None\n</IfModule>\n<IfDefine !X>\n<Files x>\nSetEnv A 1\n</Files>\n</IfDefine>\n</Directory>\nSetEnv B 1\n",
    )],
    &[("httpd.conf", "<Directory />\nOptions None\n</Files>\n")],
    &[("httpd.conf", "</Directory>\n")],
    &[("httpd.conf", "SetEnv a 1\n<Directory />\nOptions None\n")],
    &[("httpd.conf", "<IfModule core.c>\n<Directory />\n</IfModule>\n</Directory>\n")],
    // Files that are included.
    &[
        (
            "httpd.conf",
            "SetEnv first 1\nInclude one.conf\n<Directory />\nInclude ./sub/../one.conf\n</Directory>\nIncludeOptional none.conf\nIncludeOptional none/*.conf\n\
        IncludeOptional one.*.none\nSetEnv last 1\n",
        ),
        ("one.conf", "SetEnv one 1\n"),
    ],
    &[
        ("httpd.conf", "Include sites/*.conf\n"),
        ("sites/b.conf", "SetEnv b 1\n"),
        ("sites/a.conf", "SetEnv a 1\n"),
        ("sites/.h.conf", "SetEnv h 1\n"),
        ("sites/a.conf.bak", "SetEnv bak 1\n"),
    ],
    &[
        ("httpd.conf", "Include sites\n"),
        ("sites/b.conf", "SetEnv b 1\n"),
        ("sites/sub/a", "SetEnv a 1\n"),
        ("sites/.hidden", "SetEnv h 1\n"),
        ("sites/sub-a/x", "SetEnv x 1\n"),
    ],
    &[
        ("httpd.conf", "Include t/*/m.conf\n"),
        ("t/a/m.conf", "SetEnv a 1\n"),
        ("t/a-b/m.conf", "SetEnv ab 1\n"),
        ("t/file", ""),
    ],
    &[("httpd.conf", "IncludeOptional t/*/m.conf\n"), ("t/a/m.conf", "SetEnv a 1\n"), ("t/c/x", "")],
    &[("httpd.conf", "\nInclude t/*/m.conf\n"), ("t/a/m.conf", "SetEnv a 1\n"), ("t/c/x", "")],
    &[
        ("httpd.conf", "Include t/a*\n"),
        ("t/a/m.conf", "SetEnv a 1\n"),
        ("t/a.conf", "SetEnv b 1\n"),
        ("t/a/b/c", "SetEnv c 1\n"),
    ],
    &[
        ("httpd.conf", "Include t/[ab]?.conf\n"),
        ("t/a1.conf", "SetEnv a 1\n"),
        ("t/b.conf", "SetEnv b 1\n"),
        ("t/b2.conf", "SetEnv b2 1\n"),
    ],
    &[("httpd.conf", "\n\nInclude none.conf\n")],
    &[("httpd.conf", "Include none/*.conf\n")],
    &[("httpd.conf", "Include *.none\n")],
    &[("httpd.conf", "Include\n")],
    &[("httpd.conf", "Include one.conf two.conf\n"), ("one.conf", ""), ("two.conf", "")],
    &[
        ("httpd.conf", "ServerRoot sub\nInclude one.conf\n"),
        ("sub/one.conf", "SetEnv sub 1\n"),
        ("one.conf", "SetEnv root 1\n"),
    ],
    &[
        ("httpd.conf", "<IfModule core.c>\nInclude one.conf\n</IfModule>\n"),
        ("one.conf", "<IfDefine !X>\nSetEnv x 1\n</IfDefine>\n"),
    ],
    // Macros.
    &[(
        "httpd.conf",
        "<Macro Host $name %port @text>\n# no\n<Directory \"/$name\">\nPassEnv NAME $name-%port\nSetEnv TEXT @text\n</Directory>\n</Macro>\nUse Host a 80 \"x \\\" y\"\n\
        Use HOST \"b c\" 81 z\nUndefMacro host\n",
    )],
    &[(
        "httpd.conf",
        "<Macro a $x>\nPassEnv A $x ${Q}\n</Macro>\n<Macro b $x $xy>\nSetEnv $xy 1\nUse a $x\n</Macro>\nDefine Q q\nUse b 1 2\n",
    )],
    &[("httpd.conf", "<Macro a>\nSetEnv x 1\n</Macro>\nUse a\nUndefMacro a\nUse a\n")],
    &[("httpd.conf", "<Macro a $x>\nSetEnv x $x\n</Macro>\nUse a\n")],
    &[("httpd.conf", "<Macro a>\nx\n")],
    &[("httpd.conf", "<Macro a>\nSetEnv a 1\n\nUse a\n</Macro>\nUse a\n")],
    &[(
        "httpd.conf",
        "<Macro a $x>\nSetEnv A $x\n<Directory /$x>\n</Macro>\nUse a 1\nOptions None\n</Directory>\n",
    )],
    &[("httpd.conf", "<IfDefine X>\n<Macro a>\nSetEnv x 1\n</Macro>\n</IfDefine>\nUse a\n")],
];

/// Macros of each name that a text uses.
const MACROS: &str = "<Macro A $p @q>\nPassEnv A $p @q\n</Macro>\n<Macro B $p @q>\nUse A @q $p\n</Macro>\n\
    <Macro C $p @q>\nPassEnv ${A}\n</Macro>\n<Macro M $p @q>\n</Macro>\n";

/// Texts that are made up agree, too: in their trees, or in having an error.
#[test]
fn trees_of_made_up_texts_are_apaches() {
    if !have_apache() {
        return;
    }
    let (mut differences, mut agreed) = (String::new(), 0);
    for seed in 0..150 {
        let mut writer = Writer { dice: Dice::new(seed), text: MACROS.to_owned(), can_include: true };
        writer.lines(3, 12);
        let main = std::mem::take(&mut writer.text);
        writer.can_include = false;
        let [one, two] = [(); 2].map(|()| {
            writer.lines(2, 4);
            std::mem::take(&mut writer.text)
        });
        let files = [("httpd.conf", &*main), ("d/one.conf", &one), ("d/two.conf", &two)];
        let folder = tempfile::tempdir().unwrap();
        let [apache, ours] = both(folder.path(), &files);
        agreed += usize::from(apache.is_ok());
        if ours.as_ref().ok() != apache.as_ref().ok() {
            differences += &format!(
                "{seed}:\n{main}--- one\n{one}--- two\n{two}Apache: {apache:?}\nFulmar: {ours:?}\n\n"
            );
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(agreed > 50, "only {agreed} texts load");
}

struct Writer {
    dice: Dice,
    text: String,
    can_include: bool,
}

impl Writer {
    fn lines(&mut self, depth: usize, most: usize) {
        for _ in 0..=self.dice.below(most) {
            self.line(depth);
        }
    }

    fn line(&mut self, depth: usize) {
        let name = self.dice.of(&["A", "B", "C", "M"]);
        let word =
            self.dice.of(&["x", "${A}", "\"${B} y\"", "z${C}", "'q'", "$p", "@q", "w\\\n  v", "\\\"", "a#b"]);
        let not = self.dice.of(&["", "", "!"]);
        match self.dice.below(13) {
            0..=2 => self.text += &format!("PassEnv N {word} {name}\n"),
            3 => self.text += &format!("Define {name} {word}\n"),
            4 => self.text += &format!("Define {name}\n# {word}\n\n"),
            5 => self.text += &format!("UnDefine {name}\n"),
            6 if self.can_include => {
                let path = self.dice.of(&["d/one.conf", "d/*.conf", "d", "d/t*", "./d/two.conf"]);
                self.text += &format!("{}Include {path}\n", self.dice.of(&["", "  "]));
            }
            7 => self.text += &format!("Use {name} {word} {word}\n"),
            8 if depth > 0 => self.within(&format!("<Macro {name} $p @q>"), "</Macro>", depth),
            9 if depth > 0 => self.within("<If \"true\">", "</If>", depth),
            10 if depth > 0 => {
                let module = self.dice.of(&["mod_rewrite.c", "core.c", "none_module", "alias_module"]);
                self.within(&format!("<IfModule {not}{module}>"), "</IfModule>", depth);
            }
            _ if depth > 0 => self.within(&format!("<IfDefine {not}{name}>"), "</ifdefine>", depth),
            _ => self.text += "PassEnv last\n",
        }
    }

    fn within(&mut self, begin: &str, end: &str, depth: usize) {
        // A dump does not show the end of an empty section.
        self.text += &format!("{begin}\nPassEnv first\n");
        self.lines(depth - 1, 5);
        // Now and then the end is missing.
        if self.dice.below(40) > 0 {
            self.text += &format!("{end}\n");
        }
    }
}
