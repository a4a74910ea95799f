// Runs `svc policy` in process and keeps what it prints.
import { fileURLToPath } from 'node:url'
// Not among what `svc-sdk` exports to users: they have it as `svc`.
import { policyCommand } from 'svc-sdk/internal/cli/policy'

export const fixtures = fileURLToPath(new URL('../../../fixtures/policies/', import.meta.url))

/** The environment of the fixtures. `SVC_TEST_UNSET` stays unset. */
export const secret = 'hunter2-of-the-fixtures'
const env = {
  SVC_TEST_SECRET: secret,
  SVC_TEST_TENANT: 'acme',
  SVC_TEST_HOST: '127.0.0.1',
  SVC_TEST_PORT: '9000',
  SVC_TEST_OPEN: 'true',
}

export interface Printed {
  /** With the directory of the fixtures cut away. */
  readonly lines: readonly string[]
  readonly exit: number
}

export async function policy(...args: string[]): Promise<Printed> {
  const lines: string[] = []
  let exit = 0
  const command = policyCommand({
    print: (line) => lines.push(line.replaceAll(fixtures, '')),
    env,
    exit: (code) => {
      exit = code
    },
  })
  await command.parseAsync(args, { from: 'user' })
  return { lines, exit }
}
