// Parts of a suite, such as a gateway and its upstream: declared where they are started, and disposed of the last one first.

type Part = AsyncDisposable | Disposable
type Hook = 'before' | 'beforeEach'

/** The parts that run, in the order of their start, by the suite that declared them. */
const running = {
  before: new WeakMap<Mocha.Suite, Part[]>(),
  beforeEach: new WeakMap<Mocha.Suite, Part[]>(),
}

async function disposeOf(parts: Part[]): Promise<void> {
  for (const part of parts.splice(0).reverse()) {
    if (Symbol.asyncDispose in part) await part[Symbol.asyncDispose]()
    else part[Symbol.dispose]()
  }
}

function partsOf(suite: Mocha.Suite, hook: Hook): Part[] {
  const known = running[hook].get(suite)
  if (known !== undefined) return known
  const parts: Part[] = []
  running[hook].set(suite, parts)
  if (hook === 'before') suite.afterAll(() => disposeOf(parts))
  else suite.afterEach(() => disposeOf(parts))
  return parts
}

function declare<T extends Part>(hook: Hook, start: () => T | Promise<T>): T {
  let part: T | undefined
  const current = (): T => {
    if (part === undefined) throw new Error('the part has not been started')
    return part
  }
  const begin = async function (this: Mocha.Context): Promise<void> {
    part = await start()
    const suite = this.test?.parent
    if (suite === undefined) throw new Error('the hook has no suite')
    partsOf(suite, hook).push(part)
  }
  if (hook === 'before') before(begin)
  else beforeEach(begin)
  return new Proxy({} as T, {
    get: (_, key) => {
      const value: unknown = Reflect.get(current(), key)
      // Methods of a class may use its private fields.
      return typeof value === 'function' && !Object.hasOwn(current(), key) ? value.bind(current()) : value
    },
    set: (_, key, value) => Reflect.set(current(), key, value),
    has: (_, key) => Reflect.has(current(), key),
  })
}

/** The part that `start` gives before the tests of the calling suite. */
export function ofSuite<T extends Part>(start: () => T | Promise<T>): T {
  return declare('before', start)
}

/** The part that `start` gives before each test of the calling suite. */
export function ofEachTest<T extends Part>(start: () => T | Promise<T>): T {
  return declare('beforeEach', start)
}
