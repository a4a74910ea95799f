// What tests of `svc stdio` start: a scripted server, behind policies of one caller.
import { fileURLToPath } from 'node:url'

export const scripted: string = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))
/** The arguments for a scripted server in one of its modes. */
export const files = (mode = ''): string[] => ['--name', 'files', '--', process.execPath, scripted, mode]

/** The same for a gateway in the test's own process. */
export const served = (mode = '') => ({
  name: 'files',
  command: { server: 'files', command: process.execPath, args: [scripted, mode], env: [] },
})

export const ada = 'authn: { stdioCaller: { user: ada@example.com, roles: [analyst] } }\n'
export const open: string = `${ada}entitlements: open\n`
