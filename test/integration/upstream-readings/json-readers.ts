// JSON parsers that differ in which of two members of one name they use.

/** The value that a parser returns; objects are maps, so that no name is special. */
export type Read = string | number | bigint | boolean | null | readonly Read[] | ReadonlyMap<string, Read>

const token = /[ \t\n\r]*([[\]{}:,]|"(?:[^"\\]|\\.)*"|[^[\]{}:,"\s]+)/gy

export function takingFirst(text: string): Read {
  return new Parser(text, (members, name, value) => {
    if (!members.has(name)) members.set(name, value)
  }).value()
}

export function takingLast(text: string): Read {
  return new Parser(text, (members, name, value) => members.set(name, value)).value()
}

class Parser {
  #tokens: string[]
  #at = 0
  #keep: (members: Map<string, Read>, name: string, value: Read) => void

  constructor(text: string, keep: (members: Map<string, Read>, name: string, value: Read) => void) {
    this.#tokens = Array.from(text.matchAll(token), ([, each]) => each ?? '')
    this.#keep = keep
  }

  value(): Read {
    const next = this.#take()
    if (next === '{') return this.#object()
    if (next === '[') return this.#array()
    // Its digits are those that the record must hash.
    if (/^-?\d+$/.test(next) && !Number.isSafeInteger(Number(next))) return BigInt(next)
    return JSON.parse(next) as string | number | boolean | null
  }

  #object(): Read {
    const members = new Map<string, Read>()
    if (this.#tokens[this.#at] === '}') this.#take()
    else
      do {
        const name = JSON.parse(this.#take()) as string
        this.#take()
        this.#keep(members, name, this.value())
      } while (this.#take() === ',')
    return members
  }

  #array(): Read {
    const items: Read[] = []
    if (this.#tokens[this.#at] === ']') this.#take()
    else
      do items.push(this.value())
      while (this.#take() === ',')
    return items
  }

  #take(): string {
    return this.#tokens[this.#at++] ?? ''
  }
}
