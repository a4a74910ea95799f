// A thread that adds numbers.

import { Calls } from '@svc/core/thread'

export interface SumsMethods {
  add(a: number, b: number): Promise<number>
  fail(code: string): void
  leave(): void
}

export interface SumsHost {
  numberOf(name: number): number
  heard(sum: number): void
}

const host = Calls.ofThread<SumsHost>({
  async add(a: number, b: number) {
    const sum = (await host.call('numberOf', a)) + (await host.call('numberOf', b))
    host.tell('heard', sum)
    return sum
  },
  fail(code: string) {
    throw Object.assign(new Error('it does not add'), { code })
  },
  leave: () => process.exit(3),
})
