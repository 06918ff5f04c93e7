//! Redirects: the files they name, and what they make of standard input.

use super::{
    super::{
        How, Reach, Word, danger,
        files::Named,
        syntax::{Direction, Redirect},
        words,
    },
    Walker,
    commands::{Around, Input},
};

impl Walker<'_> {
    /// The files of redirects, and what they make of standard input.
    pub(super) fn redirects(&mut self, redirects: &[Redirect], through: &[String]) -> Around {
        let mut around = Around { through: through.to_vec(), ..Around::default() };
        if let Some(is_fetched) = self.pipe {
            around.input = Input::Pipe { is_fetched };
        }
        for redirect in redirects {
            let is_fetched = self.expand(&redirect.target, through);
            if let Some(name) = &redirect.variable {
                self.assigned(name, true);
            }
            if let Some(body) = redirect.here {
                let body = self.bodies.get(body).cloned().unwrap_or_default();
                let is_fetched = self.expand(&body, through);
                around.input = match body.literal() {
                    Some(text) => Input::Text(text),
                    None => Input::Pipe { is_fetched },
                };
                continue;
            }
            let targets = words::resolve(&redirect.target, is_fetched);
            let [target] = targets.as_slice() else {
                self.doubt(&redirect.target.source, "a redirect to more than one file");
                continue;
            };
            self.redirect(redirect.how, target, &mut around);
        }
        around
    }

    pub(super) fn redirect(&mut self, how: Direction, target: &Word, around: &mut Around) {
        let is_descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let uses: &[How] = match how {
            Direction::Here => {
                around.input = match target.known() {
                    Some(text) => Input::Text(text.to_owned()),
                    None => Input::Pipe { is_fetched: target.is_fetched },
                };
                return;
            }
            Direction::Duplicate if target.known().is_some_and(is_descriptor) => return,
            Direction::Duplicate | Direction::Write => &[How::Write],
            Direction::Read => {
                around.input = if target.is_process {
                    Input::Pipe { is_fetched: target.is_fetched }
                } else {
                    Input::File
                };
                &[How::Read]
            }
            Direction::ReadWrite => &[How::Read, How::Write],
        };
        if target.prefix.starts_with("/dev/tcp/") || target.prefix.starts_with("/dev/udp/") {
            self.doubt(&target.text, "it talks to the network by a redirect");
        }
        for how in uses {
            self.file(&Named { word: target.clone(), how: *how, reach: Reach::Itself });
            if *how == How::Write {
                around.redirect_danger = around.redirect_danger.or_else(|| danger::writes(target));
            }
        }
    }
}
