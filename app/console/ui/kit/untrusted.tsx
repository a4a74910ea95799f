// The only component that shows texts of callers, servers and reviewers. Characters that are not seen, or that change the
// order of others, are shown by name; long texts are cut until the reader asks for the rest.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

const CUT = 400

/** Controls, formats (bidi, zero width, tags), other separators, unassigned, private use, surrogates; not line feeds. */
const hidden =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u00A0\u115F\u1160\u2800\u3164\uFFA0]|\p{Variation_Selector}/u
const parts = new RegExp(`(${hidden.source})`, 'u')

const names: Readonly<Record<string, string>> = {
  '\t': 'TAB',
  '\r': 'CR',
  '\0': 'NUL',
  '\u001b': 'ESC',
  '\u007f': 'DEL',
  '\u00a0': 'NBSP',
  '\u00ad': 'SHY',
  '\u200b': 'ZWSP',
  '\u200c': 'ZWNJ',
  '\u200d': 'ZWJ',
  '\u200e': 'LRM',
  '\u200f': 'RLM',
  '\u202a': 'LRE',
  '\u202b': 'RLE',
  '\u202c': 'PDF',
  '\u202d': 'LRO',
  '\u202e': 'RLO',
  '\u2066': 'LRI',
  '\u2067': 'RLI',
  '\u2068': 'FSI',
  '\u2069': 'PDI',
  '\ufeff': 'BOM',
}

export interface UntrustedProps {
  readonly text: string
  /** Characters that are shown at first; default 400. */
  readonly cut?: number
  /** Whether line feeds break lines. */
  readonly isBlock?: boolean
}

export function Untrusted({ text, cut = CUT, isBlock = false }: UntrustedProps): JSX.Element {
  const [isWhole, setWhole] = useState(false)
  const isLong = text.length > cut
  const shown = isLong && !isWhole ? text.slice(0, cut) : text
  return (
    <span class={isBlock ? 'untrusted block' : 'untrusted'}>
      <bdi>{marked(shown, isBlock)}</bdi>
      {isLong && !isWhole && (
        <button type="button" class="more" onClick={() => setWhole(true)}>
          … {(text.length - cut).toLocaleString('en')} more characters
        </button>
      )}
    </span>
  )
}

function marked(text: string, isBlock: boolean): (string | JSX.Element)[] {
  return text.split(parts).map((part, at) => {
    if (at % 2 === 0 || (isBlock && part === '\n')) return part
    const label = nameOf(part)
    return (
      <mark key={at} class="hidden-character" title={`hidden character ${codeOf(part)}`}>
        {label}
      </mark>
    )
  })
}

/** The number of characters that `Untrusted` marks. */
export function hiddenCharacters(text: string): number {
  return [...text].filter((one) => one !== '\n' && hidden.test(one)).length
}

function nameOf(character: string): string {
  if (character === '\n') return 'LF'
  return names[character] ?? codeOf(character)
}

function codeOf(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}
