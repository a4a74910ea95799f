// The only component that shows texts of callers, servers and reviewers. Hidden characters are shown by name; long texts
// are cut until the reader asks for the rest.
import { isHidden, splitAtHidden } from '@svc/plugin-audit/browser'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { sha256Of } from './sha256.js'

const CUT = 400

/** In a word with Latin letters, one of these is likely to be taken for another. */
const otherScript = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}]/u
const latin = /\p{Script=Latin}/u

const names: Readonly<Record<string, readonly [short: string, long: string]>> = {
  '\n': ['LF', 'line feed'],
  '\t': ['TAB', 'tab'],
  '\r': ['CR', 'carriage return'],
  '\0': ['NUL', 'null'],
  '\u001b': ['ESC', 'escape'],
  '\u007f': ['DEL', 'delete'],
  '\u00a0': ['NBSP', 'no-break space'],
  '\u00ad': ['SHY', 'soft hyphen'],
  '\u200b': ['ZWSP', 'zero width space'],
  '\u200c': ['ZWNJ', 'zero width non-joiner'],
  '\u200d': ['ZWJ', 'zero width joiner'],
  '\u200e': ['LRM', 'left-to-right mark'],
  '\u200f': ['RLM', 'right-to-left mark'],
  '\u202a': ['LRE', 'left-to-right embedding'],
  '\u202b': ['RLE', 'right-to-left embedding'],
  '\u202c': ['PDF', 'pop directional formatting'],
  '\u202d': ['LRO', 'orders the text after it anew'],
  '\u202e': ['RLO', 'reverses the text after it'],
  '\u2066': ['LRI', 'left-to-right isolate'],
  '\u2067': ['RLI', 'right-to-left isolate'],
  '\u2068': ['FSI', 'first strong isolate'],
  '\u2069': ['PDI', 'pop directional isolate'],
  '\ufeff': ['BOM', 'zero width no-break space'],
}

export interface UntrustedProps {
  readonly text: string
  /** Characters that are shown at first; default 400. */
  readonly cut?: number
  /** Whether line feeds break lines. */
  readonly isBlock?: boolean
  /** Whether it is a name, which is cut in the middle. */
  readonly isName?: boolean
  /** Whether it is in a row of a table or list, so that it is cut like a name, and the page of the row has all of it. */
  readonly isCell?: boolean
}

export function Untrusted(props: UntrustedProps): JSX.Element {
  const { text, cut = CUT, isBlock = false, isName = false, isCell = false } = props
  const [isWhole, setWhole] = useState(false)
  const isCut = text.length > cut && !isWhole
  return (
    <span class={isBlock ? 'untrusted block' : 'untrusted'}>
      {isCut && (isName || isCell) ? (
        <CutInside text={text} cut={cut} />
      ) : (
        <bdi>{marked(isCut ? text.slice(0, wholeFrom(text, cut)) : text, isBlock)}</bdi>
      )}
      {isCut && !isCell && (
        <button type="button" class="more" onClick={() => setWhole(true)}>
          … {(text.length - cut).toLocaleString('en')} more characters
        </button>
      )}
    </span>
  )
}

const DIGITS = 8

/** A text that is cut in the middle. Texts that differ there differ in the digits of their hash. */
function CutInside({ text, cut }: { readonly text: string; readonly cut: number }): JSX.Element {
  const [hash, setHash] = useState('')
  useEffect(() => {
    let isOver = false
    void sha256Of(text).then((digits) => isOver || setHash(`${digits.slice(0, DIGITS)}…`))
    return () => {
      isOver = true
    }
  }, [text])
  const end = Math.floor(cut / 4)
  return (
    <>
      <bdi>{marked(text.slice(0, wholeFrom(text, cut - end - DIGITS)), false)}</bdi>…{hash}
      <bdi>{marked(text.slice(wholeFrom(text, text.length - end)), false)}</bdi>
    </>
  )
}

/** `at`, or the place before it if a character of two units would be cut there, whose halves would look hidden. */
function wholeFrom(text: string, at: number): number {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff ? at - 1 : at
}

function marked(text: string, isBlock: boolean): (string | JSX.Element)[] {
  return splitAtHidden(text).flatMap((part, at) => {
    if (at % 2 === 0) return otherScript.test(part) ? lettersMarked(part, at) : [part]
    if (isBlock && part === '\n') return [part]
    const [short, long] = nameOf(part)
    return [
      <mark key={at} class="hidden-character" title={`hidden character ${codeOf(part)}, ${long}`}>
        {short}
      </mark>,
    ]
  })
}

/** Marks letters of other scripts in words that have Latin ones too. */
function lettersMarked(text: string, at: number): (string | JSX.Element)[] {
  return text.split(/([\p{L}\p{M}]+)/u).flatMap((word, place) => {
    if (!latin.test(word) || !otherScript.test(word)) return [word]
    return [...word].map((letter, index) =>
      otherScript.test(letter) ? (
        <mark key={`${at} ${place} ${index}`} class="hidden-character" title="a letter of another script">
          {letter} {codeOf(letter)}
        </mark>
      ) : (
        letter
      ),
    )
  })
}

/** Describes the characters that `Untrusted` marks because they are invisible: each kind in words, with its number. */
export function hiddenCharacters(text: string): readonly { readonly name: string; readonly count: number }[] {
  const counts = new Map<string, number>()
  for (const one of text) {
    if (one === '\n' || !isHidden(one)) continue
    const [short, long] = nameOf(one)
    const name = short === long ? short : `${short}, ${long}`
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return [...counts].map(([name, count]) => ({ name, count }))
}

function nameOf(character: string): readonly [short: string, long: string] {
  return names[character] ?? [codeOf(character), codeOf(character)]
}

function codeOf(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}
