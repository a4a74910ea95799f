// Text that a person is not shown, or is shown as another text, while a model reads it.
import { matchesOf, type Span } from '@svc/core/pii'

type Find = (text: string) => Span[]

const FLAG = /\u{1f3f4}[\u{e0020}-\u{e007e}]{1,8}\u{e007f}/gu
const TAGS = /[\u{e0000}-\u{e007f}]+|[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{4,}/gu

/** Tag characters, which repeat ASCII and are not shown, and bytes as variation selectors. The flags of England, Scotland and Wales are made of them. */
const hiddenTags: Find = (text) =>
  text.includes('\udb40') || /[\ufe00-\ufe0f]{4}/.test(text)
    ? spansOf(
        text.replace(FLAG, (flag) => ' '.repeat(flag.length)),
        TAGS,
      )
    : []

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/
const OVERRIDES = /[\u202d\u202e]/
const DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]+/g

/** Characters that change the order in which text is shown. In a line with Arabic or Hebrew letters most are needed. */
const hiddenBidi: Find = (text) => {
  let end = -1
  let isRightToLeft = false
  return spansOf(text, DIRECTIONS).filter((span) => {
    if (span.start > end) {
      const next = text.indexOf('\n', span.start)
      end = next < 0 ? text.length : next
      isRightToLeft = RIGHT_TO_LEFT.test(text.slice(text.lastIndexOf('\n', span.start) + 1, end))
    }
    return !isRightToLeft || OVERRIDES.test(text.slice(span.start, span.end))
  })
}

/** One within a word, or eight in a row, which can spell a message; a joiner is needed in emoji and some scripts. */
const ZERO_WIDTH =
  /(?<=[A-Za-z])[\u200b-\u200d\u2060-\u2064\ufeff\u180e](?=[A-Za-z])|[\u200b-\u200d\u2060-\u2064\ufeff\u180e]{8,}/g
const SOME_ZERO_WIDTH = /[\u200b-\u200d\u2060-\u2064\ufeff\u180e]/
const hiddenZeroWidth: Find = (text) => (SOME_ZERO_WIDTH.test(text) ? spansOf(text, ZERO_WIDTH) : [])

/** Control sequences (ECMA-48) that conceal text, move the cursor or erase; links and the clipboard (OSC). Not colours. */
const TERMINAL =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these sequences begin with control characters.
  /\x1b\[[0-9;]{0,32}[ABCDEFGHJKSTfsu]|\x1b\[(?:[0-9]{1,3};){0,8}8(?:;[0-9]{1,3}){0,8}m|\x1b\][0-9]{1,4};(?:[^\x07\x1b\n]{0,256}(?:\x07|\x1b\\))?|\x9b/g
const hiddenTerminal: Find = (text) =>
  text.includes('\x1b') || text.includes('\x9b') ? spansOf(text, TERMINAL) : []

/** A comment with three words or more. */
const COMMENT = /<!--(?=(?:[^\w<>]*\w+){3})/g
const UNSEEN =
  /style\s{0,4}=\s{0,4}["'][^"'<>]{0,200}(?:display\s{0,4}:\s{0,4}none|visibility\s{0,4}:\s{0,4}hidden|font-size\s{0,4}:\s{0,4}0|opacity\s{0,4}:\s{0,4}0(?![.\d]))/gi
const hiddenComment: Find = (text) => [...comments(text), ...spansOf(text, UNSEEN)]

function comments(text: string): Span[] {
  // Several beginnings can have one end, which is looked for once.
  let end = 0
  return spansOf(text, COMMENT).map(({ start }) => {
    if (end < start + 3) {
      const close = text.indexOf('-->', start)
      end = close < 0 ? text.length + 3 : close + 3
    }
    return { start, end: Math.min(end, text.length) }
  })
}

/** Marks of a conversation's parts, as chat templates write them, and as attacks imitate them. */
const CHAT = new RegExp(
  [
    String.raw`<\|(?:system|user|assistant|im_start|im_end|begin_of_text|start_header_id|end_header_id|eot_id|endoftext)\|>`,
    String.raw`\[\/?INST\]|<<\/?SYS>>`,
    '^#{2,4} {0,2}(?:system(?: prompt| message)?|instructions?|new instructions?):',
    String.raw`<\/?(?:IMPORTANT|SYSTEM|HIDDEN|SECRET|CRITICAL|INSTRUCTIONS?|ADMIN)>`,
    '<(?:SYSTEM|ADMIN|GOD|DEBUG|DEVELOPER)[ _](?:MODE|OVERRIDE|INSTRUCTIONS?|PROMPT)>',
    String.raw`[[(]\/?(?:SYSTEM|ADMIN|ROLE|METADATA|EMERGENCY|CONFIGURATION|HIDDEN|PRIORITY)[ _](?:DIRECTIVE|OVERRIDE|INSTRUCTIONS?|PROMPT|NOTE)[\])]`,
    '^(?:SYSTEM|SYSTEM DIRECTIVE|ADMIN OVERRIDE|PRIORITY_INSTRUCTION|CONTEXT_UPDATE):',
  ].join('|'),
  'gm',
)
const chatMarkup: Find = (text) => (/[<[#(:]/.test(text) ? spansOf(text, CHAT) : [])

/** Turns of a conversation, and the ends of parts, as text alone could show them. */
const MARKS =
  /^(?:Human|Assistant|System): |^<\/?(?:system|assistant|instructions?|system[-_]prompt|developer)>|<\/?(?:system|instructions?)>$|^[-=*#[ ]{2,12}(?:END|BEGIN|START) OF (?:TOOL |SYSTEM |USER )?(?:OUTPUT|PROMPT|INPUT|CONTEXT|DOCUMENT|INSTRUCTIONS?)\b/gm
const conversationMarks: Find = (text) => spansOf(text, MARKS)

function spansOf(text: string, pattern: RegExp): Span[] {
  return matchesOf(text, pattern).map(({ 0: match, index }) => ({ start: index, end: index + match.length }))
}

export const hiddenDetectors = {
  'hidden-tags': hiddenTags,
  'hidden-bidi': hiddenBidi,
  'hidden-zero-width': hiddenZeroWidth,
  'hidden-terminal': hiddenTerminal,
  'hidden-comment': hiddenComment,
  'chat-markup': chatMarkup,
  'conversation-marks': conversationMarks,
}
