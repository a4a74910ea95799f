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
    check(NAME.test(name) && NAME.test(key), 'a name of a space or key cannot be stored')
    check(NAME.test(version) && version !== '*', 'a version cannot be stored')
    check(OWNER.test(owner), 'an owner cannot be stored')
    if (value.length > maxValue)
      check(false, `a value of ${value.length} characters is over the limit of ${maxValue}`)
    check(ttlMs > 0, 'an entry cannot be kept for this time')
  }
}

/** @throws {RangeError} for limits that a store does not count */
export function checkLimits(
  { name }: Space,
  limits: readonly CounterLimit[],
  { hold, batch = 1, at = 0 }: TakeOptions,
): void {
  check(NAME.test(name), 'a name of a space cannot be stored')
  check(hold === undefined || (HOLD.test(hold.id) && hold.ms > 0), 'a hold cannot be stored')
  check(batch >= 1 && Number.isFinite(at), 'a batch or instant cannot be counted')
  for (const { key, max, perSecond, amount = 1, window } of limits) {
    checkCounter(key, window)
    if (perSecond === undefined) {
      check(max >= 0, 'a limit is a number from 0')
      check(Number.isSafeInteger(amount) && amount >= 0, 'an amount is a whole number from 0')
      check(window !== undefined || hold !== undefined, 'a limit without a window counts holds alone')
    } else {
      check(perSecond > 0 && perSecond < Infinity, 'a rate is a number of tokens per second over 0')
      check(max > 0 && max < Infinity, 'the size of a bucket is a number over 0')
      check(amount >= 0 && amount < Infinity, 'an amount is a number from 0')
    }
  }
}

/** @throws {RangeError} for changes that a store does not take */
export function checkChanges({ name }: Space, changes: readonly CounterChange[], at: number): void {
  check(NAME.test(name) && Number.isFinite(at), 'a name of a space cannot be stored')
  for (const { key, window, amount } of changes) {
    checkCounter(key, window)
    check(Number.isSafeInteger(amount), 'an amount is a whole number')
    check(window !== undefined || amount <= 0, 'a limit without a window counts holds alone')
  }
}

function checkCounter(key: string, window: CounterWindow | undefined): void {
  check(COUNTER.test(key), 'a key of a counter cannot be stored')
  if (window === undefined) return
  const { ms, from = 0 } = window
  check(ms >= 1 && ms < Infinity && Number.isFinite(from), 'a window cannot last for this time')
}

function check(isValid: boolean, message: string): void {
  if (!isValid) throw new RangeError(message)
}
