//! What the comments of a configuration say.

/// A request, and what is expected of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// As it was written.
    pub(super) written: String,
    pub(super) expected: String,
    pub(super) method: String,
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) target: String,
    pub(super) fields: Vec<String>,
}

/// A file to make: its path, and its content if that is not its path.
pub(super) type Document = (String, Option<String>);

/// The files and the requests of a configuration.
pub(super) fn parse(text: &str) -> (Vec<Document>, Vec<Case>) {
    let (mut documents, mut cases) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#: ") {
            match rest.split_once(" = ") {
                Some((path, content)) => documents.push((path.trim().to_owned(), Some(content.to_owned()))),
                None => documents.extend(rest.split_whitespace().map(|path| (path.to_owned(), None))),
            }
        } else if let Some(rest) = line.strip_prefix("#? ") {
            let (written, expected) = rest.split_once(" => ").unwrap_or((rest, ""));
            cases.push(case(written.trim(), expected.trim()));
        }
    }
    (documents, cases)
}

fn case(written: &str, expected: &str) -> Case {
    let mut case = Case { written: written.to_owned(), expected: expected.to_owned(), ..Case::default() };
    let mut words = words(written).into_iter();
    "GET".clone_into(&mut case.method);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-X" => case.method = words.next().unwrap(),
            "-H" => case.fields.push(words.next().unwrap()),
            url => {
                let (scheme, rest) = url.split_once("://").unwrap_or_else(|| panic!("no URL in {written}"));
                let (authority, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let standard = if scheme == "https" { 443 } else { 80 };
                let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
                case.port = port.parse().unwrap_or(standard);
                (case.scheme, case.host) = (scheme.to_owned(), host.to_owned());
                case.target = if target.is_empty() { "/".to_owned() } else { target.to_owned() };
            }
        }
    }
    case
}

impl Case {
    /// The fields of the request, `Host` among them.
    pub(super) fn all_fields(&self) -> Vec<String> {
        let has_host = self.fields.iter().any(|field| field.to_ascii_lowercase().starts_with("host:"));
        let host = (!has_host && !self.host.is_empty()).then(|| format!("Host: {}", self.host));
        let has_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        let length = has_body.then(|| "Content-Length: 0".to_owned());
        host.into_iter().chain(self.fields.iter().cloned()).chain(length).collect()
    }
}

/// Words; single quotes hold one together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    words
}
