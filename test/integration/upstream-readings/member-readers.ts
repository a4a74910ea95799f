// Functions that find a member by its name as programs do, which differ in the names that they equate and in which of two
// members they use.
import { type Read, takingLast } from './json-readers.js'

type SameName = (written: string, wanted: string) => boolean

const by =
  (fold: (name: string) => string): SameName =>
  (written, wanted) =>
    fold(written) === fold(wanted)

/** Java's String.equalsIgnoreCase, of names without surrogate pairs. */
function equalsIgnoreCase(written: string, wanted: string): boolean {
  return by((name) =>
    Array.from(name, (letter) =>
      lower(letter.toUpperCase().length === 1 ? letter.toUpperCase() : letter),
    ).join(''),
  )(written, wanted)
}

/** The case mapping of one letter to one letter. */
function lower(letter: string): string {
  return letter.toLowerCase().slice(0, 1)
}

/** Unicode simple case folding, as Go's encoding/json. */
function foldsAlike(written: string, wanted: string): boolean {
  return new RegExp(`^${wanted.replace(/[^\p{L}\p{N}]/gu, '\\$&')}$`, 'iu').test(written)
}

const sameNames: Readonly<Record<string, SameName>> = {
  exactly: by((name) => name),
  'with simple case folding': foldsAlike,
  'in lower case': by((name) => name.toLowerCase()),
  'in upper case': by((name) => name.toUpperCase()),
  'as Java without regard to case': equalsIgnoreCase,
  'in NFC': by((name) => name.normalize('NFC')),
  'in NFKC': by((name) => name.normalize('NFKC')),
  'in NFKC and lower case': by((name) => name.normalize('NFKC').toLowerCase()),
  trimmed: by((name) => name.trim()),
}

/** The value that a program reads at a path of names and array indices; undefined if it finds none. */
export type MemberReader = (text: string, place: readonly (string | number)[]) => Read | undefined

export const memberReaders: ReadonlyArray<readonly [string, MemberReader]> = Object.entries(
  sameNames,
).flatMap(
  ([how, isSame]) =>
    (['first', 'last'] as const).map((which) => [
      `finds members ${how}, the ${which} of several`,
      (text, place) =>
        place.reduce<Read | undefined>((value, step) => {
          if (Array.isArray(value)) return typeof step === 'number' ? value[step] : undefined
          if (!(value instanceof Map)) return undefined
          const found = Array.from(value).filter(([name]) => isSame(name, String(step)))
          return found.at(which === 'first' ? 0 : -1)?.[1]
        }, takingLast(text)),
    ]) as [string, MemberReader][],
)
