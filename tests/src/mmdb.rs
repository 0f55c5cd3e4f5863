//! Writes databases about addresses in MaxMind's format (MaxMind DB, version 2.0).

use std::net::IpAddr;

/// A value of a database.
#[derive(Clone, Debug)]
pub enum Datum {
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(&'static [u8]),
    /// A number of 64 bits with a fraction.
    Double(f64),
    /// A number of 32 bits with a fraction.
    Float(f32),
    /// A number of 16 bits.
    U16(u16),
    /// A number of 32 bits.
    U32(u32),
    /// A number of 32 bits, which may be negative.
    I32(i32),
    /// A number of 64 bits.
    U64(u64),
    /// A number of 128 bits.
    U128(u128),
    /// Whether something holds.
    Bool(bool),
    /// Values by keys.
    Map(Vec<(String, Datum)>),
    /// Values in an order.
    List(Vec<Datum>),
}

impl Datum {
    /// A text.
    pub fn text(text: &str) -> Datum {
        Datum::Text(text.to_owned())
    }

    /// A value by a key.
    pub fn map(key: &str, value: Datum) -> Datum {
        Datum::maps([(key, value)])
    }

    /// Values by keys.
    pub fn maps<const N: usize>(entries: [(&str, Datum); N]) -> Datum {
        Datum::Map(entries.map(|(key, value)| (key.to_owned(), value)).into())
    }

    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Datum::Text(text) => sized(2, text.as_bytes(), out),
            Datum::Bytes(bytes) => sized(4, bytes, out),
            Datum::Double(number) => sized(3, &number.to_be_bytes(), out),
            Datum::Float(number) => sized(15, &number.to_be_bytes(), out),
            Datum::U16(number) => sized(5, short(&number.to_be_bytes()), out),
            Datum::U32(number) => sized(6, short(&number.to_be_bytes()), out),
            Datum::I32(number) => sized(8, &number.to_be_bytes(), out),
            Datum::U64(number) => sized(9, short(&number.to_be_bytes()), out),
            Datum::U128(number) => sized(10, short(&number.to_be_bytes()), out),
            Datum::Bool(is_true) => control(14, usize::from(*is_true), out),
            Datum::Map(entries) => {
                control(7, entries.len(), out);
                for (key, value) in entries {
                    sized(2, key.as_bytes(), out);
                    value.write(out);
                }
            }
            Datum::List(values) => {
                control(11, values.len(), out);
                values.iter().for_each(|value| value.write(out));
            }
        }
    }
}

/// Without the zeros at the start.
fn short(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    &bytes[zeros..]
}

fn sized(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    control(kind, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// The kind of a value, and its size.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let more = u8::try_from(size.saturating_sub(29)).expect("a short value");
    let low = u8::try_from(size.min(29)).expect("five bits");
    let high = if kind <= 7 { kind << 5 } else { 0 };
    out.push(high | low);
    if kind > 7 {
        out.push(kind - 7);
    }
    if low == 29 {
        out.push(more);
    }
}

/// A part of the search tree.
enum Branch {
    Nothing,
    Node(Box<[Branch; 2]>),
    /// Where the value begins.
    Value(usize),
}

impl Branch {
    fn insert(&mut self, bits: &[bool], value: usize) {
        let [bit, rest @ ..] = bits else {
            *self = Branch::Value(value);
            return;
        };
        if !matches!(self, Branch::Node(_)) {
            *self = Branch::Node(Box::new([Branch::Nothing, Branch::Nothing]));
        }
        if let Branch::Node(sides) = self {
            sides[usize::from(*bit)].insert(rest, value);
        }
    }

    /// Gives each node its number, in the order in which they are written.
    fn write(&self, nodes: &mut Vec<[Record; 2]>) -> Record {
        match self {
            Branch::Nothing => Record::Nothing,
            Branch::Value(place) => Record::Value(*place),
            Branch::Node(sides) => {
                let number = nodes.len();
                nodes.push([Record::Nothing; 2]);
                let records = [sides[0].write(nodes), sides[1].write(nodes)];
                nodes[number] = records;
                Record::Node(number)
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    Value(usize),
}

/// A database of networks of both families, which was built at this time (seconds since 1970).
pub fn database(built: u64, networks: &[(impl AsRef<str>, Datum)]) -> Vec<u8> {
    let (mut data, mut tree) = (Vec::new(), Branch::Nothing);
    for (network, datum) in networks {
        let (address, length) = network.as_ref().split_once('/').expect("a network");
        let (address, before): (u128, usize) = match address.parse().expect("an address") {
            IpAddr::V4(address) => (u32::from(address).into(), 96),
            IpAddr::V6(address) => (address.into(), 0),
        };
        let length = before + length.parse::<usize>().expect("a length");
        let bits: Vec<bool> = (0..length).map(|bit| address >> (127 - bit) & 1 == 1).collect();
        tree.insert(&bits, data.len());
        datum.write(&mut data);
    }
    let mut nodes = Vec::new();
    tree.write(&mut nodes);
    let mut out = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match record {
            Record::Nothing => nodes.len(),
            Record::Node(number) => *number,
            Record::Value(place) => nodes.len() + 16 + place,
        };
        let bytes = u32::try_from(number).expect("a small database").to_be_bytes();
        out.extend_from_slice(&bytes[1..]);
    }
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(&data);
    out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let count = u32::try_from(nodes.len()).expect("a small database");
    let metadata = Datum::maps([
        ("binary_format_major_version", Datum::U16(2)),
        ("binary_format_minor_version", Datum::U16(0)),
        ("build_epoch", Datum::U64(built)),
        ("database_type", Datum::text("Test")),
        ("description", Datum::map("en", Datum::text("of a test"))),
        ("ip_version", Datum::U16(6)),
        ("languages", Datum::List(vec![Datum::text("en")])),
        ("node_count", Datum::U32(count)),
        ("record_size", Datum::U16(24)),
    ]);
    metadata.write(&mut out);
    out
}
