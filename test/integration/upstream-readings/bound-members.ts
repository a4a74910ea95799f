// Generates arguments in which a member that a rule limits is written in several ways. Each reader must read from the
// arguments that the rules allow the value that was allowed.
import { isRefusal, isSideEffecting } from '@svc/core'
import { type JsonObject, type JsonValue, parseJson } from '@svc/core/json'
import { MandateError } from '@svc/plugin-ap2/internal/mandate/error'
import { bindingSchema, checkArguments } from '@svc/plugin-ap2/internal/verify/arguments'
import { Chance } from '../../support/chance.js'
import { memberReaders } from './member-readers.js'

/** Names that a reader may equate: by case, by compatibility, by composition. */
const names = ['amount', 'task', 'Prix', 'é', 'ﬁ', 'ᾳ', 'straße', 'ID', 'İx', 'a/b'] as const

const variants: readonly [(name: string) => string, ...((name: string) => string)[]] = [
  (name) => name,
  (name) => name.toUpperCase(),
  (name) => name.toLowerCase(),
  (name) => `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`,
  (name) => name.normalize('NFD'),
  (name) => name.normalize('NFKC'),
  (name) => name.replace(/s/i, 'ſ').replace(/k/i, '\u212a'),
  (name) => name.replace(/i/i, 'ı'),
  (name) => name.replace(/[a-z]/i, (letter) => String.fromCodePoint(0xfee0 + letter.charCodeAt(0))),
  (name) => `${name} `,
  (name) => `x${name}`,
]

/** The object with one more way to write `name`, or another one for it, before or after what it has. */
function written(chance: Chance, name: string, honest: JsonValue, other: JsonValue): JsonObject {
  if (chance.int(0, 4) > 0) return { [name]: honest }
  const variant = () => chance.pick(variants)(name)
  const members: [string, JsonValue][] = []
  if (chance.int(0, 3) > 0) members.push([chance.int(0, 2) > 0 ? name : variant(), honest])
  for (let more = chance.int(0, 2); more > 0; more--)
    members.push([variant(), chance.int(0, 2) > 0 ? other : honest])
  return Object.fromEntries(chance.int(0, 1) === 0 ? members : members.reverse())
}

interface Case {
  readonly args: JsonValue
  /** The reader that reads a value which is not allowed, and that value; undefined if there is none. */
  readonly wrong: string | undefined
  readonly isAllowed: boolean
}

const text = (value: unknown) => JSON.stringify(value)

/** Mandates for the amount 1999, for one item whose quantity may be absent, and for a card; one of them may be missing. */
function mandateCase(seed: number): Case {
  const chance = new Chance(seed)
  const [outer, inner, list, id, count] = Array.from({ length: 5 }, () => chance.pick(names)) as [
    string,
    string,
    string,
    string,
    string,
  ]
  const quantity = chance.int(1, 2)
  const pointer = (...path: string[]) => path.map((name) => `/${name.replaceAll('/', '~1')}`).join('')
  const item = {
    ...written(chance, `${id}1`, 'shoe', 'boat'),
    ...written(chance, `${count}2`, quantity, 3 - quantity),
  }
  const order = written(chance, inner, 1999, 999_999)
  const args = parseJson(
    Buffer.from(
      text({
        ...written(chance, `${outer}3`, order, { [inner]: 999_999 }),
        ...written(chance, `${list}4`, [item], [{ [`${id}1`]: 'boat' }]),
        ...written(chance, 'card', 'card_1', 'card_2'),
      }),
    ),
  )
  const binding = bindingSchema.parse({
    total: pointer(`${outer}3`, inner),
    items: { list: pointer(`${list}4`), id: pointer(`${id}1`), quantity: pointer(`${count}2`) },
    instrument: '/card',
  })
  const mandates = [
    { total: 1999 },
    { total: 1999, items: new Map([['shoe', quantity]]) },
    { instrument: 'card_1' },
  ]
  const presented = mandates.filter(() => chance.int(0, 7) > 0)
  try {
    checkArguments(presented, args, binding)
  } catch (error) {
    if (!(error instanceof MandateError)) throw error
    return { args, wrong: undefined, isAllowed: false }
  }
  for (const [reader, read] of memberReaders) {
    const at = (...place: (string | number)[]) => read(text(args), place)
    const runs = [
      ['total', at(`${outer}3`, inner), 1999],
      ['items', `${at(`${list}4`, 0, `${id}1`)} ${at(`${list}4`, 0, `${count}2`) ?? 1}`, `shoe ${quantity}`],
      ['instrument', at('card'), 'card_1'],
    ] as const
    for (const [term, run, mandated] of runs) {
      if (run !== mandated || presented.every((terms) => !(term in terms))) {
        return { args, wrong: `${reader}: ${term} ${run}, mandates ${text(presented)}`, isAllowed: true }
      }
    }
  }
  return { args, wrong: undefined, isAllowed: true }
}

const safe = ['GET', 'get', 'HEAD', 'OPTIONS']

/** A tool with a `method`, whose name does not state an effect. */
function methodCase(seed: number): Case {
  const chance = new Chance(seed)
  const args = parseJson(
    Buffer.from(
      text(written(chance, 'method', chance.pick(['GET', 'head']), chance.pick(['DELETE', 'POST']))),
    ),
  )
  try {
    if (isSideEffecting({ kind: 'tool', name: 'fetch', reference: 'mcp://web/fetch@1', args })) {
      return { args, wrong: undefined, isAllowed: false }
    }
  } catch (error) {
    if (!isRefusal(error)) throw error
    return { args, wrong: undefined, isAllowed: false }
  }
  for (const [reader, read] of memberReaders) {
    const method = read(text(args), ['method'])
    if (method !== undefined && !safe.includes(String(method).toUpperCase())) {
      return { args, wrong: `${reader}: ${String(method)}`, isAllowed: true }
    }
  }
  return { args, wrong: undefined, isAllowed: true }
}

/**
 * Throws for the first arguments in which a reader finds a value that was not allowed, with the number that generates
 * them. `sent` is the number of allowed arguments, for the kind of rule that allowed fewer.
 */
export function compareBoundMembers(seed: number, requests: number): { sent: number } {
  const allowed = { mandateCase: 0, methodCase: 0 }
  for (let number = seed; number < seed + requests; number++) {
    for (const [name, make] of [
      ['mandateCase', mandateCase],
      ['methodCase', methodCase],
    ] as const) {
      const { args, wrong, isAllowed } = make(number)
      if (isAllowed) allowed[name]++
      if (wrong !== undefined) throw new Error(`SVC_SEED=${number}: arguments ${text(args)}: ${wrong}`)
    }
  }
  return { sent: Math.min(...Object.values(allowed)) }
}
