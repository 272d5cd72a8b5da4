//! Generator of hostile frames: messages that contain another message for some readers. Tests send them through the
//! gateway, and `fuzz/targets/frames.rs` passes them to its parser.

/// Every sequence that some reader treats as a line ending.
pub const LINE_ENDS: [&str; 11] = [
    "\r", "\n", "\r\n", "\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}",
];

/// Generates frames from a source of numbers, so that a failure can be reproduced.
pub struct Frames<N> {
    next: N,
}

impl<N: FnMut() -> u64> Frames<N> {
    pub fn new(next: N) -> Frames<N> {
        Frames { next }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from((self.next)() % limit as u64).unwrap_or(0)
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let place = self.below(all.len());
        all.get(place).copied().unwrap_or_default()
    }

    /// Returns one or two line endings of any kind, sometimes none.
    fn end(&mut self) -> String {
        let count = [1, 1, 1, 2, 0].get(self.below(5)).copied().unwrap_or(1);
        (0..count).map(|_| self.one_of(&LINE_ENDS)).collect()
    }

    fn carrier(&mut self) -> &'static str {
        self.one_of(&[
            r#"{"jsonrpc":"2.0","id":"c","method":"ping","params":{"x":VALUE}}"#,
            r#"{"jsonrpc":"2.0","id":"c","method":"ping","params":VALUE}"#,
            r#"{"jsonrpc":"2.0","id":"c","method":"x/unknown","params":{"x":[VALUE,1]}}"#,
            r#"{"jsonrpc":"2.0","id":"c","method":"ping","x":VALUE}"#,
            r#"{"x":VALUE,"jsonrpc":"2.0","id":"c","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"x":VALUE}}"#,
            r#"{"jsonrpc":"2.0","id":"c","result":VALUE}"#,
            r#"{"jsonrpc":"2.0","id":"c","error":{"code":1,"message":"m","data":VALUE}}"#,
            r#"{"jsonrpc":"2.0","id":VALUE,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"c","method":"resources/read","params":{"uri":"x://y","_meta":VALUE}}"#,
        ])
    }

    /// Generates a frame that contains `call`, a complete message, in some form.
    pub fn frame(&mut self, call: &str) -> Vec<u8> {
        let (before, behind) = (self.end(), self.end());
        let hidden = format!("{before}{call}{behind}");
        let escaped = call.replace('\\', "\\\\").replace('"', "\\\"");
        let carrier = self.carrier();
        let with = |value: &str| carrier.replace("VALUE", value);
        let twice = |name: &str, value: &str| call.replacen('{', &format!("{{\"{name}\":{value},"), 1);
        let unnamed = |text: &str| text.replacen("\"id\"", "\"x-id\"", 1);
        let text = match self.below(20) {
            0..=4 => with(&hidden),
            5 => with(&format!("\"{before}{escaped}{behind}\"")),
            6 => with(&format!("\"{hidden}\"")),
            7 => format!("{}{hidden}", with("1")),
            8 => format!("{hidden}{}", with("{}")),
            9 => format!("[{},{hidden}]", with("{}")),
            10 => format!("[{hidden}]"),
            11 => twice("method", "\"ping\""),
            12 => call.replacen("\"params\"", "\"params\":{},\"params\"", 1),
            13 => call.replacen("\"method\"", "\"m\\u0065thod\":\"ping\",\"method\"", 1),
            14 => unnamed(call),
            15 => format!("\u{feff}{call}"),
            16 => call.replacen("\"params\":{", "\"params\":{\"n\":NaN,", 1),
            17 => call.replacen(
                "\"method\"",
                self.one_of(&["\"Method\"", "\"METHOD\"", "\"method \""]),
                1,
            ),
            18 => call.replacen(
                "tools/call",
                self.one_of(&["Tools/Call", "tools/call ", "tools\\/call\\u0000"]),
                1,
            ),
            _ => call.replacen(
                "\"id\"",
                self.one_of(&["\"id\":null,\"x\"", "\"id\":[1],\"x\"", "\"id\":1,\"id\""]),
                1,
            ),
        };
        let mut bytes = text.into_bytes();
        if self.below(12) == 0 {
            let place = self.below(bytes.len().max(1));
            let bad = [0xff, 0xc2, 0x85, 0x00, 0xed]
                .get(self.below(5))
                .copied()
                .unwrap_or(0xff);
            bytes.insert(place, bad);
        }
        bytes
    }
}
