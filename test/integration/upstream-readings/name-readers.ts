// Functions that find the tool for a name as programs behind the gateway do: by its text, or after they have split,
// composed, folded or trimmed it.

/** The tool that a program reads from a text, with the version if the text has one. */
export interface ToolRead {
  readonly tool: string
  readonly version: string | undefined
}

type Change = (text: string) => string

const invisible = /\p{Cf}|\ufe0f/gu

const changes: Readonly<Record<string, Change>> = {
  'as it is': (text) => text,
  NFC: (text) => text.normalize('NFC'),
  NFKC: (text) => text.normalize('NFKC'),
  'lower case': (text) => text.toLowerCase(),
  'upper case': (text) => text.toUpperCase(),
  // Go: `strings.ToLower` maps each letter by itself.
  'lower case of each letter': (text) => [...text.replaceAll('İ', 'i')].map((c) => c.toLowerCase()).join(''),
  trimmed: (text) => text.trim(),
  'Windows file names': (text) => text.replace(/[. ]+$/, ''),
  'without what is not shown': (text) => text.replace(invisible, ''),
  'NFKC_Casefold, trimmed': (text) =>
    text.replace(invisible, '').normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC').trim(),
}

type Split = (text: string) => ToolRead[]

const at = (text: string, index: number): ToolRead[] =>
  index > 0 ? [{ tool: text.slice(0, index), version: text.slice(index + 1) }] : []

const splits: Readonly<Record<string, Split>> = {
  'at the first @': (text) => at(text, text.indexOf('@')),
  'at the last @': (text) => at(text, text.lastIndexOf('@')),
  'at each @, taking the first two': (text) => {
    const [tool = '', version] = text.split('@')
    return tool === '' ? [] : [{ tool, version }]
  },
  'at each @, taking the first and the last': (text) => {
    const parts = text.split('@')
    return parts[0] ? [{ tool: parts[0], version: parts.at(-1) }] : []
  },
}

export type NameReader = (text: string) => ToolRead[]

/** Readers of `<tool>@<version>` in a decoded path. */
export const segmentReaders: ReadonlyArray<readonly [string, NameReader]> = Object.entries(splits).flatMap(
  ([where, split]) =>
    Object.entries(changes).flatMap(
      ([how, change]): Array<readonly [string, NameReader]> => [
        [
          `splits ${where}, then ${how}`,
          (text) => split(text).map(({ tool, version }) => ({ tool: change(tool), version })),
        ],
        [`${how}, then splits ${where}`, (text) => split(change(text))],
      ],
    ),
)

/** Readers of a name in a message. */
export const messageReaders: ReadonlyArray<readonly [string, NameReader]> = Object.entries(changes).map(
  ([how, change]) => [how, (name) => [{ tool: change(name), version: undefined }]],
)
