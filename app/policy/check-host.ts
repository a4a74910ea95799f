// Checks the host's keys of a policy: key files that cannot be read, and an address without TLS.

import type { ConfigConflict, PolicyHost } from '@svc/core'
import { defined } from '@svc/core/json'
import { isKeyReference } from '@svc/core/policy'
import { KeyReader } from '@svc/core/secret'
import { isLocalAddress } from '../http/allowed-hosts.js'
import type { TlsConfig } from '../http/tls/certificates.js'
import { stdioTargetsOf } from '../stdio/targets/config.js'
import { findCommand, mayFetch, readNpx, referenceIn, withHome } from '../stdio/targets/environment.js'
import type { HostConfig } from './config.js'
import type { PolicyPlace } from './facts.js'
import { checkFederation } from './federation-config.js'

/** A reference to a key file of the host's part, and where such files may be. */
interface HostKey {
  readonly path: readonly (string | number)[]
  readonly ref: string
  readonly directories?: readonly string[]
}

export function checkHost(
  host: HostConfig,
  place: PolicyPlace | undefined,
  callers: PolicyHost['callers'],
): ConfigConflict[] {
  return [
    ...(callers === 'remote' ? plainHttp(host) : []),
    ...(callers === 'program' ? withoutListener(host) : []),
    ...checkFederation(host.federation, Object.keys(host.targets)),
    ...keyFiles(host, place),
    ...fetchedPackages(host),
    ...commands(host, place),
  ]
}

/** The mistakes of a gateway of several processes: each would start the commands for itself. */
export function checkSharedHost({ targets }: HostConfig): ConfigConflict[] {
  const message =
    'a command runs in one process, and with --workers there are several; use --workers 1, or a server over HTTP'
  return Object.entries(targets).flatMap(([server, target]) =>
    typeof target === 'string' ? [] : [{ path: ['targets', server], message }],
  )
}

/** Nothing would check what a registry has at the start of a process. */
function fetchedPackages({ targets }: HostConfig): ConfigConflict[] {
  return [...stdioTargetsOf(targets).values()].flatMap(({ server, target: { command, args } }) => {
    if (!mayFetch(command, args)) return []
    const spec = readNpx(command, args)?.spec ?? 'PACKAGE'
    const install = `npm install --ignore-scripts --save-exact ${spec}`
    const message = `npx would run what a registry has at the start, which nothing checks; install the package beside the policy (${install}, or npx svc-sdk init for servers of clients) and give its program, such as node_modules/.bin/NAME, or npx --no`
    return [{ path: ['targets', server, 'command'], message }]
  })
}

/** Warnings: the other servers work without the command. */
function commands({ targets }: HostConfig, place: PolicyPlace | undefined): ConfigConflict[] {
  if (place === undefined) return []
  const { baseDir } = place
  return [...stdioTargetsOf(targets).values()].flatMap(({ server, target }): ConfigConflict[] => {
    const path = target.env['PATH'] ?? process.env['PATH']
    const home = target.env['HOME'] ?? process.env['HOME']
    if (findCommand(withHome(target.command, home), baseDir, path) !== undefined) return []
    const message = `the command ${target.command} is not found, so the server "${server}" cannot start`
    return [{ path: ['targets', server, 'command'], message, severity: 'warning' }]
  })
}

function withoutListener({ admin }: HostConfig): ConfigConflict[] {
  if (admin === undefined) return []
  const message = 'has no effect in process: there is no listener, so nobody votes or looks at /metrics there'
  return [{ path: ['admin'], message, severity: 'warning' }]
}

/** Allows `publicUrl` with https, as for a proxy that ends TLS. */
function plainHttp({ server: { host, tls, publicUrl } }: HostConfig): ConfigConflict[] {
  if (tls !== undefined || isLocalAddress(host) || publicUrl?.startsWith('https:') === true) return []
  const message = 'not a loopback address, and there is no TLS: tokens and arguments can be read in transit'
  return [{ path: ['server', 'host'], message, severity: 'warning' }]
}

function keyFiles(host: HostConfig, place: PolicyPlace | undefined): ConfigConflict[] {
  if (place === undefined) return []
  return hostKeys(host).flatMap(({ path, ref, directories }) => {
    const message = new KeyReader(place, directories).fileError(ref)
    return message === undefined ? [] : [{ path, message }]
  })
}

export function hostKeys({ server, admin, notices, targets }: HostConfig): HostKey[] {
  const given = (path: readonly (string | number)[], ref: string | undefined) =>
    ref === undefined ? [] : [{ path, ref }]
  return [
    ...given(['server', 'sessionKeyRef'], server.sessionKeyRef),
    ...tlsKeys(['server', 'tls'], server.tls),
    ...given(['admin', 'tokenRef'], admin?.tokenRef),
    ...tlsKeys(['admin', 'tls'], admin?.tls),
    ...[...stdioTargetsOf(targets).values()].flatMap(({ server: name, target }) => [
      ...Object.entries(target.env).flatMap(([variable, value]) =>
        isKeyReference(value) ? given(['targets', name, 'env', variable], value) : [],
      ),
      ...target.args.flatMap((arg, index) => given(['targets', name, 'args', index], referenceIn(arg))),
    ]),
    ...notices.flatMap(({ secretRef }, index) => given(['notices', index, 'secretRef'], secretRef)),
  ]
}

function tlsKeys(path: readonly string[], tls: TlsConfig | undefined): HostKey[] {
  if (tls === undefined) return []
  const { key, cert, clientCa, dirs } = tls
  return Object.entries({ key, cert, clientCa }).flatMap(([name, ref]) =>
    ref === undefined ? [] : [{ path: [...path, name], ref, ...defined({ directories: dirs }) }],
  )
}
