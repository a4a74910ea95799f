// What may be stored in a space.
import type { CounterChange, CounterLimit, CounterWindow, TakeOptions } from '../../plugin/counters.js'
import type { Space, Write } from '../../plugin/key-value-store.js'

const MAX_VALUE = 4_194_304
const NAME = /^[!-~]{1,400}$/
const OWNER = /^[!-~]{0,400}$/
const COUNTER = /^[!-~]{1,300}$/
const HOLD = /^[!-9;-~]{1,100}$/

/** @throws {RangeError} for writes that a store does not take */
export function checkWrites({ name, maxValue = MAX_VALUE }: Space, writes: readonly Write[]): void {
  for (const { key, version, owner = '', value = '', ttlMs = Infinity } of writes) {
    if (!(NAME.test(name) && NAME.test(key)))
      throw new RangeError('a name of a space or key cannot be stored')
    if (!(NAME.test(version) && version !== '*')) throw new RangeError('a version cannot be stored')
    if (!OWNER.test(owner)) throw new RangeError('an owner cannot be stored')
    if (value.length > maxValue)
      throw new RangeError(`a value of ${value.length} characters is over the limit of ${maxValue}`)
    if (!(ttlMs > 0)) throw new RangeError('an entry cannot be kept for this time')
  }
}

/** @throws {RangeError} for limits that a store does not count */
export function checkLimits(
  { name }: Space,
  limits: readonly CounterLimit[],
  { hold, batch = 1, at = 0 }: TakeOptions,
): void {
  if (!NAME.test(name)) throw new RangeError('a name of a space cannot be stored')
  if (!(hold === undefined || (HOLD.test(hold.id) && hold.ms > 0)))
    throw new RangeError('a hold cannot be stored')
  if (!(batch >= 1 && Number.isFinite(at))) throw new RangeError('a batch or instant cannot be counted')
  for (const { key, max, perSecond, amount = 1, window } of limits) {
    checkCounter(key, window)
    if (perSecond === undefined) {
      if (!(max >= 0)) throw new RangeError('a limit is a number from 0')
      if (!(Number.isSafeInteger(amount) && amount >= 0))
        throw new RangeError('an amount is a whole number from 0')
      if (!(window !== undefined || hold !== undefined))
        throw new RangeError('a limit without a window counts holds alone')
    } else {
      if (!(perSecond > 0 && perSecond < Infinity))
        throw new RangeError('a rate is a number of tokens per second over 0')
      if (!(max > 0 && max < Infinity)) throw new RangeError('the size of a bucket is a number over 0')
      if (!(amount >= 0 && amount < Infinity)) throw new RangeError('an amount is a number from 0')
    }
  }
}

/** @throws {RangeError} for changes that a store does not take */
export function checkChanges({ name }: Space, changes: readonly CounterChange[], at: number): void {
  if (!(NAME.test(name) && Number.isFinite(at))) throw new RangeError('a name of a space cannot be stored')
  for (const { key, window, amount } of changes) {
    checkCounter(key, window)
    if (!Number.isSafeInteger(amount)) throw new RangeError('an amount is a whole number')
    if (!(window !== undefined || amount <= 0))
      throw new RangeError('a limit without a window counts holds alone')
  }
}

function checkCounter(key: string, window: CounterWindow | undefined): void {
  if (!COUNTER.test(key)) throw new RangeError('a key of a counter cannot be stored')
  if (window === undefined) return
  const { ms, from = 0 } = window
  if (!(ms >= 1 && ms < Infinity && Number.isFinite(from)))
    throw new RangeError('a window cannot last for this time')
}
