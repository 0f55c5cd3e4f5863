//! What `listen` says about the connections of an address.

/// What the lines of `listen` say about the connections of an address: three things that do not depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    /// What they are wrapped in.
    pub wrapping: Wrapping,
    /// Which versions of the application's protocol clients may speak besides the oldest one.
    pub versions: Versions,
    /// What they are for.
    pub application: Application,
}

/// What comes before the application's protocol on a connection, the first one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrapping {
    /// A header of the PROXY protocol (`proxy_protocol`).
    pub proxy_header: bool,
    /// TLS (`ssl`).
    pub tls: bool,
}

/// The versions of HTTP besides HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// HTTP/2 (`http2`).
    pub http2: bool,
}

/// What connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// They carry requests (`http`).
    Http,
    /// They are passed on as they are (`stream`).
    Stream,
}

impl Protocols {
    /// Those of a line without parameters: in clear, the oldest version.
    pub const fn of(application: Application) -> Protocols {
        Protocols {
            wrapping: Wrapping { proxy_header: false, tls: false },
            versions: Versions { http2: false },
            application,
        }
    }

    /// Enables what a parameter of `listen` stands for. Returns whether it stands for a protocol.
    pub(crate) fn enable(&mut self, parameter: &[u8]) -> bool {
        let flag = match parameter {
            b"ssl" => &mut self.wrapping.tls,
            b"proxy_protocol" => &mut self.wrapping.proxy_header,
            b"http2" => &mut self.versions.http2,
            _ => return false,
        };
        *flag = true;
        true
    }

    /// What either of two lines for one application enables.
    #[must_use]
    pub(crate) fn or(self, other: Protocols) -> Protocols {
        let (own, its) = (self.wrapping, other.wrapping);
        Protocols {
            wrapping: Wrapping {
                proxy_header: own.proxy_header || its.proxy_header,
                tls: own.tls || its.tls,
            },
            versions: Versions { http2: self.versions.http2 || other.versions.http2 },
            application: self.application,
        }
    }

    /// Whether this enables all that another line for the same application enables.
    pub(crate) fn has(self, other: Protocols) -> bool {
        self.or(other) == self
    }
}

#[cfg(test)]
mod tests {
    use super::{Application, Protocols};

    fn of(parameters: &[&str]) -> Protocols {
        let mut protocols = Protocols::of(Application::Http);
        parameters.iter().for_each(|name| assert!(protocols.enable(name.as_bytes()), "{name}"));
        protocols
    }

    #[test]
    fn lines_of_an_address_add_up() {
        let all = of(&["ssl", "http2", "proxy_protocol"]);
        assert_eq!(of(&["ssl"]).or(of(&["http2"])).or(of(&["proxy_protocol"])), all);
        for one in ["ssl", "http2", "proxy_protocol"] {
            assert!(all.has(of(&[one])) && !of(&[one]).has(all), "{one}");
            assert!(!of(&[]).has(of(&[one])), "{one}");
        }
        assert!(!Protocols::of(Application::Http).enable(b"backlog"));
    }
}
