//! The HTML elements that affect how a page is read.

macro_rules! tags {
    ($($tag:ident $name:literal,)*) => {
        /// An HTML element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Tag {
            $($tag,)*
            /// Any other element; only its content matters.
            Other,
        }

        impl Tag {
            /// Returns the tag of a name in lower case.
            pub(crate) fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$tag,)*
                    _ => Self::Other,
                }
            }
        }
    };
}

tags! {
    A "a", Address "address", Article "article", Aside "aside", Audio "audio", B "b", Base "base",
    Blockquote "blockquote", Body "body", Br "br", Button "button", Caption "caption", Center "center",
    Cite "cite", Code "code", Dd "dd", Del "del", Details "details", Dialog "dialog", Dir "dir", Div "div", Dl "dl",
    Dt "dt", Em "em", Embed "embed", Fieldset "fieldset", Figcaption "figcaption", Figure "figure", Font "font",
    Footer "footer", Form "form", Frame "frame", Frameset "frameset", H1 "h1", H2 "h2", H3 "h3", H4 "h4", H5 "h5",
    H6 "h6", Head "head", Header "header", Hgroup "hgroup", Hr "hr", Html "html", I "i", Iframe "iframe", Img "img",
    Input "input", Ins "ins", Kbd "kbd", Label "label", Legend "legend", Li "li", Link "link", Main "main", Map "map",
    Mark "mark", Math "math", Annotation "annotation", Menu "menu", Meta "meta", Nav "nav", Noframes "noframes",
    Noscript "noscript", Object "object", Ol "ol", Option "option", P "p", Picture "picture", Pre "pre", Q "q",
    Rp "rp", Rt "rt", S "s", Samp "samp", Script "script", Search "search", Section "section", Select "select",
    Small "small", Source "source", Span "span", Strike "strike", Strong "strong", Style "style", Sub "sub",
    Summary "summary", Sup "sup", Svg "svg", Table "table", Tbody "tbody", Td "td", Template "template",
    Textarea "textarea", Tfoot "tfoot", Th "th", Thead "thead", Time "time", Title "title", Tr "tr", Track "track",
    Tt "tt", U "u", Ul "ul", Var "var", Video "video", Wbr "wbr", Xmp "xmp", Area "area", Col "col",
    Param "param", Dfn "dfn",
}

impl Tag {
    /// Returns true if the element has no content and no end tag.
    pub(crate) fn is_void(self) -> bool {
        use Tag::{
            Area, Base, Br, Col, Embed, Frame, Hr, Img, Input, Link, Meta, Param, Source, Track,
            Wbr,
        };
        matches!(
            self,
            Area | Base
                | Br
                | Col
                | Embed
                | Frame
                | Hr
                | Img
                | Input
                | Link
                | Meta
                | Param
                | Source
                | Track
                | Wbr
        )
    }

    /// Returns true if the element is a block, not part of a line.
    pub(crate) fn is_block(self) -> bool {
        use Tag::{
            Address, Article, Aside, Blockquote, Body, Caption, Center, Dd, Details, Dialog, Dir,
            Div, Dl, Dt, Fieldset, Figcaption, Figure, Footer, Form, Frame, Frameset, Header,
            Hgroup, Hr, Legend, Li, Main, Menu, Nav, Noframes, Ol, P, Pre, Search, Section,
            Summary, Table, Tbody, Td, Tfoot, Th, Thead, Tr, Ul, Xmp,
        };
        self.heading().is_some()
            || matches!(
                self,
                Address
                    | Article
                    | Aside
                    | Blockquote
                    | Body
                    | Caption
                    | Center
                    | Dd
                    | Details
                    | Dialog
                    | Dir
                    | Div
                    | Dl
                    | Dt
                    | Fieldset
                    | Figcaption
                    | Figure
                    | Footer
                    | Form
                    | Frame
                    | Frameset
                    | Header
                    | Hgroup
                    | Hr
                    | Legend
                    | Li
                    | Main
                    | Menu
                    | Nav
                    | Noframes
                    | Ol
                    | P
                    | Pre
                    | Search
                    | Section
                    | Summary
                    | Table
                    | Tbody
                    | Td
                    | Tfoot
                    | Th
                    | Thead
                    | Tr
                    | Ul
                    | Xmp
            )
    }

    /// Returns true for formatting elements, which authors often close in the wrong order.
    pub(crate) fn is_formatting(self) -> bool {
        use Tag::{
            A, B, Cite, Code, Del, Em, Font, I, Ins, Kbd, Mark, S, Samp, Small, Span, Strike,
            Strong, Sub, Sup, Tt, U, Var,
        };
        matches!(
            self,
            A | B
                | Cite
                | Code
                | Del
                | Em
                | Font
                | I
                | Ins
                | Kbd
                | Mark
                | S
                | Samp
                | Small
                | Span
                | Strike
                | Strong
                | Sub
                | Sup
                | Tt
                | U
                | Var
        )
    }

    /// Returns true for table elements; only their end tags end a table cell.
    pub(crate) fn is_of_tables(self) -> bool {
        matches!(
            self,
            Self::Table
                | Self::Thead
                | Self::Tbody
                | Self::Tfoot
                | Self::Tr
                | Self::Td
                | Self::Th
                | Self::Caption
        )
    }

    /// Returns the level of a heading.
    pub(crate) fn heading(self) -> Option<usize> {
        match self {
            Self::H1 => Some(1),
            Self::H2 => Some(2),
            Self::H3 => Some(3),
            Self::H4 => Some(4),
            Self::H5 => Some(5),
            Self::H6 => Some(6),
            _ => None,
        }
    }
}
