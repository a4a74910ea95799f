// The statements of the contract, section by section: each is a test, and a row of docs/reference/contract.md.
// `scripts/docs.mjs` imports the test files without mocha and prints what they registered.

export interface Statement {
  /** The number of its section, and a letter. */
  readonly id: string
  readonly text: string
  /** Why the code differs; absent if the statement holds. */
  readonly difference?: string
}

export interface ContractSection {
  readonly number: string
  readonly title: string
  readonly statements: readonly Statement[]
}

/** Throws, or returns a promise that rejects, if the statement is not true. */
type Check = () => unknown

/** In the order of registration. */
export const sections: ContractSection[] = []

const runsTests = typeof describe === 'function'

/** Registers the statements of one section, and their tests if mocha runs. Its methods may be taken off it. */
export class Statements {
  readonly list: Statement[] = []
  readonly #number: string

  constructor(number: string) {
    this.#number = number
  }

  readonly holds = (letter: string, text: string, check: Check): void => {
    this.#add({ id: `${this.#number}${letter}`, text }, check)
  }

  /** `check` proves what the code does instead. */
  readonly differs = (letter: string, text: string, difference: string, check: Check): void => {
    this.#add({ id: `${this.#number}${letter}`, text, difference }, check)
  }

  /** What all statements of the section use, started before them and disposed of after them. */
  readonly given = <T extends AsyncDisposable>(start: () => Promise<T>): (() => T) => {
    let value: T | undefined
    if (runsTests) {
      before(async () => {
        value = await start()
      })
      after(() => value?.[Symbol.asyncDispose]())
    }
    return () => {
      if (value === undefined) throw new Error(`what section ${this.#number} needs did not start`)
      return value
    }
  }

  #add(statement: Statement, check: Check): void {
    if (this.list.some(({ id }) => id === statement.id)) throw new Error(`${statement.id} is stated twice`)
    this.list.push(statement)
    if (!runsTests) return
    const verdict = statement.difference === undefined ? '' : ' (differs)'
    it(`${statement.id} ${statement.text}${verdict}`, async () => check())
  }
}

export function contractSection(
  number: string,
  title: string,
  state: (statements: Statements) => void,
): void {
  const statements = new Statements(number)
  sections.push({ number, title, statements: statements.list })
  if (runsTests) describe(`contract ${number}, ${title}`, () => state(statements))
  else state(statements)
}
