//! Splits text into words, folded in the same way for replies, prompts and tables.
//!
//! Words come out in one form, regardless of case, width, encoding of accents, and apostrophes. Invisible characters
//! are reported, not skipped. Nothing is interpreted here.

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};
use unicode_script::{Script, UnicodeScript as _};

use crate::policy::VALUE;

/// The words of a text.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Folded text that the spans point into.
    text: String,
    spans: Vec<Span>,
    /// True if the text has a question mark of any script.
    pub(super) is_question: bool,
    /// First character that is invisible or reorders text; `None` if there is none.
    pub(super) hidden: Option<char>,
}

/// Byte range of one word, and the gap before it.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
    gap: Gap,
}

/// Punctuation between a word and the word before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// A comma, a line break or a bullet: another item may begin here.
    pub(super) is_joint: bool,
    /// A slash, as in `y/n`.
    pub(super) is_slash: bool,
    /// A hyphen and nothing else: both words form one, as in "yes-man".
    pub(super) is_hyphen: bool,
    /// The placeholder of a value, which is not part of an offer's words.
    pub(super) is_value: bool,
}

impl Words {
    /// Splits a text into words. Returns `None` if there are more than `limit`.
    pub(super) fn of(text: &str, limit: usize) -> Option<Words> {
        let mut reader = WordReader {
            words: Words {
                spans: Vec::with_capacity((text.len() / 4 + 1).min(limit)),
                ..Words::default()
            },
            open: None,
            gap: Gap::default(),
            last: Last::None,
        };
        if text.is_ascii() {
            reader.plain(text);
        } else {
            reader.words.text.reserve(text.len());
            text.nfkc().for_each(|c| reader.character(c));
        }
        reader.close();
        // The Greek question mark looks like a semicolon and is usually typed as one.
        reader.words.is_question |= text.trim_end().ends_with([';', '\u{37e}']);
        (reader.words.spans.len() <= limit).then_some(reader.words)
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns the word at `index`; empty past the end.
    pub(super) fn get(&self, index: usize) -> &str {
        let span = self.spans.get(index);
        span.and_then(|span| self.text.get(span.start as usize..span.end as usize))
            .unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns a bit set of the first 128 words: bit `n` is set if a hyphen joins word `n` to the one before.
    pub(super) fn hyphens(&self) -> u128 {
        let inside = (0..self.len().min(128)).filter(|index| self.gap(*index).is_hyphen);
        inside.fold(0, |places, index| places | 1 << index)
    }

    pub(super) fn gap(&self, index: usize) -> Gap {
        self.spans.get(index).map(|span| span.gap).unwrap_or_default()
    }
}

/// Strips quotation marks or asterisks around the whole text, because people often repeat labels with them.
pub(super) fn unwrapped(text: &str) -> &str {
    let mut text = text.trim();
    for (open, close) in [
        ('"', '"'),
        ('“', '”'),
        ('„', '“'),
        ('«', '»'),
        ('「', '」'),
        ('*', '*'),
        ('*', '*'),
    ] {
        let inner = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        text = inner.map_or(text, str::trim);
    }
    text
}

/// Returns the first character that suggests that a program wrote the text: brackets, quotation marks, keys with
/// values, options, paths. `None` if there is none.
pub(super) fn code(text: &str) -> Option<char> {
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied();
        let begins_word = before.is_whitespace() && next.is_some_and(char::is_alphanumeric);
        let is_code = match c {
            '{' | '}' | '[' | ']' | '_' | '"' | '*' | '/' | '“' | '”' | '„' | '«' | '»' | '「' | '」'
            | '『' | '』' | '‹' | '›' | '＂' | '／' => true,
            ':' | '：' => !matches!(next, Some(')' | '-')),
            '-' => {
                matches!(before, ' ' | '\t' | '\n' | '-')
                    && next.is_some_and(|c| c != '-' && !c.is_whitespace())
            }
            '!' => begins_word,
            '(' => before.is_alphanumeric(),
            _ => false,
        };
        if is_code {
            return Some(c);
        }
        before = c;
    }
    None
}

/// Returns true if a text has only the characters of a plain answer: letters, digits, spaces, a comma, full stop or
/// exclamation mark after a word, an apostrophe or hyphen inside one, and a few emoji. Returns false for quotation
/// marks, brackets, other dots, arrows and joiners of any script: such a text may quote, hint or hide something.
pub(super) fn is_plain_text(text: &str) -> bool {
    use GeneralCategory as G;
    let text = text.trim();
    let is_letter = |c: char| {
        matches!(
            c.general_category(),
            G::UppercaseLetter | G::LowercaseLetter | G::TitlecaseLetter | G::OtherLetter | G::DecimalNumber
        ) || matches!(c, 'ー' | '々' | 'ๆ' | 'ｰ')
    };
    let is_mark = |c: char| matches!(c.general_category(), G::NonspacingMark | G::SpacingMark);
    let is_arabic = |c: char| c.script() == Script::Arabic;
    let is_emoji = |c: char| matches!(c, '✅' | '👍' | '👌' | '🙌' | '🙏' | '🙂' | '😊');
    let mut before = ' ';
    let mut is_word_before = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied();
        let is_next = |is: &dyn Fn(char) -> bool| next.is_some_and(is);
        let is_end = next.is_none_or(|c| c.is_whitespace() || c == '!' || c == '！');
        let is_behind_word = is_word_before || is_emoji(before);
        let is_plain = match c {
            ' ' | '\n' | '\r' | '\t' | '\u{a0}' | '\u{202f}' | '\u{3000}' => true,
            '!' | '！' => {
                is_behind_word
                    || matches!(before, '!' | '！')
                    || (before == ' ' && next.is_none() && text.len() > 1)
            }
            '.' | '۔' | '।' | ',' | '،' => is_behind_word && is_end,
            // Chinese and Japanese put no space after these marks.
            '。' | '，' | '、' | '．' => is_behind_word,
            '\'' | '’' | 'ʼ' => is_word_before && is_next(&is_letter),
            '-' | '\u{2010}' => is_word_before && before.is_alphabetic() && is_next(&char::is_alphabetic),
            // The joiner inside Persian words.
            '\u{200c}' => is_arabic(before) && is_next(&is_arabic),
            '#' => before.is_whitespace() && is_next(&|c| c.is_ascii_digit()),
            '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' if is_emoji(before) => continue,
            c if is_emoji(c) || is_letter(c) => true,
            // Vowel signs tell words apart that are otherwise spelled alike: with a doubled letter, the Arabic "yes" is
            // "postpone". Only the ending of adverbs is common: شكراً.
            '\u{64b}' => before == 'ا' || next == Some('ا'),
            '\u{64c}'..='\u{652}' | '\u{670}' | '\u{591}'..='\u{5c7}' => false,
            c => is_mark(c) && is_word_before,
        };
        if !is_plain {
            return false;
        }
        is_word_before = is_letter(c) || is_mark(c);
        before = c;
    }
    true
}

/// Returns true if a text trails off or breaks off: it has an ellipsis or two dots in a row, even with whitespace in
/// between, or ends in a comma or a dash.
pub(super) fn trails_off(text: &str) -> bool {
    let is_dot = |c: char| matches!(c, '.' | '。' | '．' | '｡' | '・' | '･' | '۔' | '।');
    let mut has_dot = false;
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        if matches!(c, '…' | '‥' | '⋯' | '︙' | '᠁') || (has_dot && is_dot(c)) {
            return true;
        }
        has_dot = is_dot(c);
    }
    text.trim_end().ends_with([
        ',', '،', '、', '，', '-', '‐', '‑', '–', '—', '―', '~', '〜', '～',
    ])
}

/// Returns true for a word of a script without spaces. Each character of such a script counts as a word.
pub(super) fn is_unspaced(word: &str) -> bool {
    word.starts_with(|c| {
        matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')
    })
}

/// Returns the words of a text, however many there are.
pub(super) fn split(text: &str) -> Vec<String> {
    let words = Words::of(text, usize::MAX).unwrap_or_default();
    words.iter().map(str::to_owned).collect()
}

/// Role of an ASCII character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    /// Ignored, so that `don't` equals `dont`.
    Apostrophe,
    Space,
    Joint,
    Slash,
    Question,
    Sign,
    Hidden,
}

static ASCII: [Class; 128] = classes();

const fn classes() -> [Class; 128] {
    let mut classes = [Class::Hidden; 128];
    let mut byte = 0;
    while byte < 128 {
        #[expect(clippy::indexing_slicing, reason = "a constant: a mistake does not compile")]
        {
            classes[byte as usize] = class(byte);
        }
        byte += 1;
    }
    classes
}

const fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => Class::Letter,
        b'\'' => Class::Apostrophe,
        b'?' => Class::Question,
        b',' | b';' | b'\n' | b'\r' => Class::Joint,
        b'/' => Class::Slash,
        b' ' | b'\t' | b'.' | b'!' | b':' | b'(' | b')' | b'"' | b'-' | b'_' | b'*' | b'[' | b']' | b'{'
        | b'}' => Class::Space,
        b'#' | b'$' | b'%' | b'&' | b'+' | b'<' | b'=' | b'>' | b'@' | b'\\' | b'^' | b'`' | b'|' | b'~' => {
            Class::Sign
        }
        _ => Class::Hidden,
    }
}

/// Kind of the previous character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    None,
    /// A letter or digit of a word.
    Letter,
    /// A letter of a script in which zero-width joiners belong to the spelling.
    JoiningLetter,
    /// A symbol, which is a word of its own.
    Sign,
    /// A zero-width joiner after a symbol: the next symbol belongs to the same emoji.
    JoinedSign,
}

struct WordReader {
    words: Words,
    open: Option<u32>,
    gap: Gap,
    last: Last,
}

impl WordReader {
    /// Reads ASCII text, the common case. Words are spans of a lower-case copy of the whole text.
    fn plain(&mut self, text: &str) {
        self.words.text = text.to_ascii_lowercase();
        let mut start = None;
        let mut has_apostrophe = false;
        for (at, byte) in text.bytes().enumerate() {
            let class = ASCII.get(usize::from(byte)).copied().unwrap_or(Class::Hidden);
            match class {
                Class::Letter => {
                    start.get_or_insert(at);
                    continue;
                }
                Class::Apostrophe => {
                    has_apostrophe |= start.is_some();
                    continue;
                }
                _ => {}
            }
            if let Some(start) = start.take() {
                self.span(start, at, std::mem::take(&mut has_apostrophe));
                self.gap.is_hyphen = byte == b'-';
            } else {
                self.gap.is_hyphen = false;
            }
            match class {
                Class::Joint => self.gap.is_joint = true,
                Class::Slash => self.gap.is_slash = true,
                Class::Question => self.words.is_question = true,
                Class::Sign => self.span(at, at + 1, false),
                Class::Hidden => self.hide(char::from(byte)),
                Class::Space | Class::Letter | Class::Apostrophe => {}
            }
        }
        if let Some(start) = start {
            self.span(start, text.len(), has_apostrophe);
        }
    }

    /// Adds the word from `start` to `end`. If it has an apostrophe, a copy without it is appended to the text and used
    /// instead.
    fn span(&mut self, start: usize, end: usize, has_apostrophe: bool) {
        let (mut start, mut end) = (start, end);
        if has_apostrophe {
            let letters = self
                .words
                .text
                .get(start..end)
                .unwrap_or_default()
                .replace('\'', "");
            start = self.words.text.len();
            self.words.text.push_str(&letters);
            end = self.words.text.len();
        }
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let gap = std::mem::take(&mut self.gap);
        self.words.spans.push(Span {
            start: place(start),
            end: place(end),
            gap,
        });
    }

    fn ascii(&mut self, byte: u8) {
        match ASCII.get(usize::from(byte)).copied().unwrap_or(Class::Hidden) {
            Class::Letter => self.letter(char::from(byte.to_ascii_lowercase()), Last::Letter),
            Class::Apostrophe => {}
            Class::Question => {
                self.words.is_question = true;
                self.close();
            }
            Class::Joint => self.joint(),
            Class::Slash => {
                self.close();
                self.gap.is_slash = true;
            }
            Class::Space => self.space(byte == b'-'),
            Class::Sign => self.sign(char::from(byte)),
            Class::Hidden => self.hide(char::from(byte)),
        }
    }

    fn character(&mut self, c: char) {
        if let Ok(byte) = u8::try_from(c)
            && byte.is_ascii()
        {
            return self.ascii(byte);
        }
        match c {
            VALUE => {
                self.close();
                self.gap.is_value = true;
                self.hide(c);
            }
            '’' | '‘' | 'ʼ' | 'ʹ' | '´' | '·' | '״' | '׳' => {}
            '\u{2010}' => self.space(true),
            '؟' | '¿' | '⁇' | '՞' | '፧' | '；' | '⸮' | '‽' | '⸘' | '⁈' | '⁉' | '꘏' | '꛷' | '𑅃' =>
            {
                self.words.is_question = true;
                self.close();
            }
            '،' | '、' | '•' | '؛' | '\u{2028}' | '\u{2029}' => self.joint(),
            // Skin tones and presentation selectors do not change the meaning.
            '\u{1f3fb}'..='\u{1f3ff}' | '\u{fe0e}' | '\u{fe0f}' if self.last == Last::Sign => {}
            '\u{200d}' if self.last == Last::Sign => self.last = Last::JoinedSign,
            '\u{200c}' | '\u{200d}' if self.last == Last::JoiningLetter => {}
            _ => self.by_category(c),
        }
    }

    fn by_category(&mut self, c: char) {
        use GeneralCategory as G;
        match c.general_category() {
            G::UppercaseLetter | G::TitlecaseLetter => c.to_lowercase().for_each(|c| self.folded(c)),
            G::LowercaseLetter | G::OtherLetter | G::ModifierLetter | G::DecimalNumber => self.folded(c),
            G::LetterNumber | G::OtherNumber => self.sign(c),
            G::NonspacingMark | G::SpacingMark => self.mark(c),
            G::SpaceSeparator
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::ConnectorPunctuation
            | G::OtherPunctuation => self.close(),
            G::OtherSymbol | G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol => self.sign(c),
            _ => self.hide(c),
        }
    }

    /// Adds a letter, after folding variants that people use interchangeably.
    fn folded(&mut self, c: char) {
        match c {
            // The dot that lower-casing `İ` leaves behind.
            '\u{307}' => {}
            // Turkish has both `ı` and `i`; many keyboards have only `i`.
            'ı' => self.letter('i', Last::Letter),
            'ß' => {
                self.letter('s', Last::Letter);
                self.letter('s', Last::Letter);
            }
            'ς' => self.letter('σ', Last::Letter),
            'أ' | 'إ' | 'آ' | 'ٱ' => self.letter('ا', Last::JoiningLetter),
            'ى' | 'ی' => self.letter('ي', Last::JoiningLetter),
            'ک' => self.letter('ك', Last::JoiningLetter),
            'ـ' => {}
            _ => self.letter_of_script(c),
        }
    }

    fn letter_of_script(&mut self, c: char) {
        use Script as S;
        let script = match c {
            // Most text needs no lookup.
            '\u{80}'..='\u{5ff}' => S::Latin,
            _ => c.script(),
        };
        match script {
            // Scripts without spaces: each character is a word here, and a pattern of a table is a sequence of them.
            S::Han | S::Hiragana | S::Katakana | S::Thai | S::Lao | S::Khmer | S::Myanmar => {
                self.close();
                self.letter(c, Last::Letter);
            }
            S::Arabic
            | S::Devanagari
            | S::Bengali
            | S::Gurmukhi
            | S::Gujarati
            | S::Oriya
            | S::Tamil
            | S::Telugu
            | S::Kannada
            | S::Malayalam
            | S::Sinhala => self.letter(c, Last::JoiningLetter),
            _ => self.letter(c, Last::Letter),
        }
    }

    fn mark(&mut self, c: char) {
        match c {
            // The dot that lower-casing `İ` leaves behind, and vowel points of Arabic and Hebrew, which are mostly not
            // written.
            '\u{307}' | '\u{64b}'..='\u{652}' | '\u{670}' | '\u{591}'..='\u{5c7}' => {}
            '\u{901}' => self.letter('\u{902}', Last::JoiningLetter),
            _ if self.open.is_some() => self.words.text.push(c),
            _ => self.hide(c),
        }
    }

    fn letter(&mut self, c: char, last: Last) {
        if self.open.is_none() {
            self.open = Some(u32::try_from(self.words.text.len()).unwrap_or(u32::MAX));
        }
        self.words.text.push(c);
        self.last = last;
    }

    fn sign(&mut self, c: char) {
        if self.last == Last::JoinedSign {
            self.last = Last::Sign;
            return;
        }
        self.close();
        self.letter(c, Last::Sign);
        self.close();
        self.last = Last::Sign;
    }

    fn joint(&mut self) {
        self.close();
        self.gap.is_joint = true;
    }

    /// Ends a word. `is_hyphen` is true if only a hyphen separates it from the next word.
    fn space(&mut self, is_hyphen: bool) {
        let ends_word = self.open.is_some();
        self.close();
        self.gap.is_hyphen = is_hyphen && ends_word;
    }

    fn hide(&mut self, c: char) {
        self.words.hidden.get_or_insert(c);
    }

    fn close(&mut self) {
        self.last = Last::None;
        if let Some(start) = self.open.take() {
            let end = u32::try_from(self.words.text.len()).unwrap_or(u32::MAX);
            let gap = std::mem::take(&mut self.gap);
            self.words.spans.push(Span { start, end, gap });
        }
    }
}
