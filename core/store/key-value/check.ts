// What may be stored in a space.
import type { Space, Write } from '../../plugin/key-value-store.js'

const MAX_VALUE = 4_194_304
const NAME = /^[!-~]{1,400}$/
const OWNER = /^[!-~]{0,400}$/

/** @throws {RangeError} for writes that a store does not take */
export function checkWrites({ name, maxValue = MAX_VALUE }: Space, writes: readonly Write[]): void {
  for (const { key, version, owner = '', value = '', ttlMs = Infinity } of writes) {
    if (!NAME.test(name) || !NAME.test(key)) throw new RangeError('a name of a space or key cannot be stored')
    if (!NAME.test(version) || version === '*') throw new RangeError('a version cannot be stored')
    if (!OWNER.test(owner)) throw new RangeError('an owner cannot be stored')
    if (value.length > maxValue)
      throw new RangeError(`a value of ${value.length} characters is over the limit of ${maxValue}`)
    if (!(ttlMs > 0)) throw new RangeError(`an entry cannot be kept for ${ttlMs} ms`)
  }
}
