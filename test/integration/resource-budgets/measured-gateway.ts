// A gateway with a small heap in its own process.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { endWithRunner } from '../../support/child-lifetime.js'
import type { Used } from './gateway-process.js'

export interface MeasuredGateway extends AsyncDisposable {
  readonly url: string
  /** Rejects when the process ends. */
  readonly died: Promise<never>
  /** The resources that it has used since the last question. */
  used(): Promise<Used>
}

export interface MeasuredSettings {
  readonly targets: object
  readonly oidc: object
  readonly preset: string | undefined
}

export async function startMeasuredGateway(
  settings: MeasuredSettings,
  heapMb: number,
): Promise<MeasuredGateway> {
  const module = fileURLToPath(new URL('./gateway-process.js', import.meta.url))
  const execArgv = [`--max-old-space-size=${heapMb}`, '--expose-gc', '--conditions=svc-internal']
  const child = endWithRunner(fork(module, [JSON.stringify(settings)], { execArgv, silent: true }))
  const exit = once(child, 'exit')
  const died = exit.then(([code, signal]) => {
    throw new Error(`the gateway ended with ${code ?? signal}`)
  })
  died.catch(() => undefined)
  const said = async (): Promise<unknown> => (await Promise.race([once(child, 'message'), died]))[0]
  const url = String(await said())
  return {
    url,
    died,
    async used() {
      const response = said()
      child.send('used')
      return (await response) as Used
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await exit
    },
  }
}
