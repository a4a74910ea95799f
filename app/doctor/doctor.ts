// Runs every check of `svc doctor` on a policy; also has the checks of the gateway's own part: keys, certificates,
// directory and upstreams.
import { get as httpGet, type IncomingMessage } from 'node:http'
import { get as httpsGet } from 'node:https'
import { createServer, type Server } from 'node:net'
import {
  type Clock,
  checkServer,
  checkUsable,
  type DoctorCheck,
  type Logger,
  type PluginContext,
  resolve,
  tokens,
  withinLimit,
} from '@svc/core'
import { isLoopbackHost, readBounded } from '@svc/core/http'
import { messageOf, parseJsonObject } from '@svc/core/json'
import type { EffectivePolicy } from '@svc/core/policy'
import { KeyReader, loadOrCreateKey } from '@svc/core/secret'
import { checkDirectory } from '@svc/core/store'
import { readSecret } from '../admin/notices/signature.js'
import { Certificates, type TlsConfig } from '../http/tls/certificates.js'
import { AdminToken } from '../policy/admin-authorizer.js'
import type { HostConfig } from '../policy/config.js'
import { addressOf } from '../upstream/target.js'
import { listHttpTools } from './listed-tools.js'
import { checkTools, type SectionChecks, stdioChecks } from './stdio-targets.js'
import type { ListedTools } from './tool-access.js'
import { unmatchedPatterns } from './unmatched-patterns.js'

function hostChecks(
  policy: EffectivePolicy<HostConfig>,
  context: PluginContext,
  listed: ListedTools[],
): SectionChecks[] {
  const { host } = policy
  const { server, admin } = host
  const sections: SectionChecks[] = [
    { section: 'sec0Dir', run: () => checkDirectory("the gateway's directory", context.stateDir) },
    { section: 'port', run: () => checkPorts(host) },
    { section: 'server', run: () => checkServerKeys(server, context) },
    { section: 'targets', run: () => checkTargets(policy, context, listed) },
    { section: 'notices', run: () => checkWebhooks(host, context) },
  ]
  return admin === undefined
    ? sections
    : [...sections, { section: 'admin', run: () => checkAdminKeys(admin, context) }]
}

async function checkServerKeys(
  { sessionKeyRef: ref, tls }: HostConfig['server'],
  context: PluginContext,
): Promise<DoctorCheck[]> {
  const key = { fileName: '', ref, owner: 'server.sessionKeyRef' }
  const hint = 'set at least 32 random characters, for example from `openssl rand -base64 32`'
  return [
    ...(ref === undefined
      ? []
      : [await checkUsable('the key of MCP sessions', hint, () => loadOrCreateKey(key, context))]),
    ...(tls === undefined ? [] : await checkCertificates(tls, context)),
  ]
}

async function checkAdminKeys(
  { tokenRef, tls }: NonNullable<HostConfig['admin']>,
  context: PluginContext,
): Promise<DoctorCheck[]> {
  const clock = resolve(context.container, tokens.Clock)
  const hint = 'set a token of at least 16 characters, for example from `openssl rand -hex 32`'
  const check = (ref: string) => new AdminToken(ref, new KeyReader(context), clock).check()
  return [
    ...(tokenRef === undefined ? [] : [await checkUsable('the admin token', hint, () => check(tokenRef))]),
    ...(tls === undefined ? [] : await checkCertificates(tls, context)),
  ]
}

async function checkCertificates(tls: TlsConfig, context: PluginContext): Promise<DoctorCheck[]> {
  const clock: Clock = resolve(context.container, tokens.Clock)
  const logger: Logger = resolve(context.container, tokens.Logger)
  try {
    const reader = new KeyReader(context, tls.dirs)
    const certificates = await Certificates.open(tls, { reader, clock, logger })
    const expires = new Date(certificates.expiresAt).toISOString()
    const warnings = certificates.warnings()
    if (warnings.length === 0) {
      return [{ severity: 'ok', message: `the certificate can be used until ${expires}` }]
    }
    const severity = certificates.expiresAt < clock.now() ? 'error' : 'warning'
    return warnings.map((message) => ({ severity, message, hint: 'renew the certificate' }))
  } catch (error) {
    return [{ severity: 'error', message: messageOf(error), hint: 'name a key and its certificate in PEM' }]
  }
}

async function checkWebhooks({ notices }: HostConfig, context: PluginContext): Promise<DoctorCheck[]> {
  const reader = new KeyReader(context)
  const hint = 'set `whsec_` and the base64 of 24 to 64 bytes'
  const checks = notices.map(async ({ url, secretRef: ref, allowPrivate }, index) => {
    const mayBePrivate = allowPrivate || isLoopbackHost(new URL(url).hostname)
    const subject = `the webhook notices[${index}]`
    const server = await checkServer(subject, url, mayBePrivate ? 'any' : 'public')
    if (ref === undefined) return server
    const read = async () => readSecret(await reader.read(ref))
    return [...server, await checkUsable(`the secret of ${subject}`, hint, read)]
  })
  return (await Promise.all(checks)).flat()
}

async function checkTargets(
  policy: EffectivePolicy<HostConfig>,
  context: PluginContext,
  listed: ListedTools[],
): Promise<DoctorCheck[]> {
  const checks = Object.entries(policy.host.targets).map(async ([server, target]): Promise<DoctorCheck[]> => {
    if (typeof target !== 'string') return []
    const [reached, ...clock] = await checkServer(`the server "${server}"`, addressOf(target))
    const tools = reached.severity === 'ok' ? await listHttpTools(server, target) : undefined
    if (tools === undefined) return [reached, ...clock]
    listed.push(tools)
    return [reached, ...clock, ...(await checkTools(tools, policy, context))]
  })
  return (await Promise.all(checks)).flat()
}

/** Binds the ports for a moment, without accepting a connection. */
async function checkPorts({ port, server, admin }: HostConfig): Promise<DoctorCheck[]> {
  const addresses = [
    { name: 'the gateway', ...server, port },
    ...(admin === undefined ? [] : [{ name: 'the admin listener', ...admin }]),
  ]
  const bound: Server[] = []
  const checks: DoctorCheck[] = []
  try {
    // All listen at once, so that two listeners with one address are found.
    for (const { name, host, port, tls } of addresses) {
      const address = `${name}'s address ${host}, port ${port}`
      try {
        bound.push(await bind(host, port))
        checks.push({ severity: 'ok', message: `${address} is free` })
      } catch (error) {
        const running = {
          severity: 'warning',
          message: `${address} is in use, as if the gateway runs`,
        } as const
        const message = `${address} cannot be used: ${messageOf(error)}`
        const hint = 'stop what listens there, or choose another port or address'
        checks.push(
          (await isGateway(host, port, tls !== undefined)) ? running : { severity: 'error', message, hint },
        )
      }
    }
  } finally {
    await Promise.all(bound.map((one) => new Promise((resolve) => one.close(resolve))))
  }
  return checks
}

/** Whether what listens there responds as a gateway or its admin listener does. */
async function isGateway(host: string, port: number, isTls: boolean): Promise<boolean> {
  // The certificate has names, and this is an address; nothing is sent that another server could use.
  const options = { host, port, path: '/healthz', headers: { host: 'localhost' }, rejectUnauthorized: false }
  const send = isTls ? httpsGet : httpGet
  const signal = AbortSignal.timeout(1_000)
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      send({ ...options, signal }, resolve).once('error', reject)
    })
    const { bytes } = await readBounded(response, 1_024)
    return response.statusCode === 200 && parseJsonObject(bytes.toString())?.['status'] === 'ok'
  } catch {
    // Something else listens there, or asks for a client certificate.
    return false
  }
}

function bind(host: string, port: number): Promise<Server> {
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, exclusive: true }, () => resolve(server))
  })
}

/** A check with the section of the policy that it is about. */
export interface SectionCheck extends DoctorCheck {
  readonly section: string
}

/** Time limit for all checks of one section, some of which ask several servers. */
const defaultTimeoutMs = 30_000

/** The checks in the order of the host's keys, then of the stages. Never rejects. */
export async function runDoctor(
  policy: EffectivePolicy<HostConfig>,
  context: PluginContext,
): Promise<SectionCheck[]> {
  const { plugins, sections } = policy
  const ofPlugins = plugins.flatMap((plugin): SectionChecks[] => {
    const { name } = plugin
    const config = sections.get(name)
    return [{ section: name, run: async () => (await plugin.create(config, context).doctor?.()) ?? [] }]
  })
  const listed: ListedTools[] = []
  const all = [...hostChecks(policy, context, listed), ...stdioChecks(policy, context, listed), ...ofPlugins]
  const checks = (await Promise.all(all.map(runCheck))).flat()
  const unmatched = unmatchedPatterns(listed, policy).map(
    ({ severity, path, message }): SectionCheck => ({
      section: 'targets',
      severity,
      message: `${path.join('.')}: ${message}`,
    }),
  )
  return [...checks, ...unmatched]
}

async function runCheck({
  section,
  timeoutMs = defaultTimeoutMs,
  run,
}: SectionChecks): Promise<SectionCheck[]> {
  try {
    return (await withinLimit('the checks', run(), timeoutMs)).map((check) => ({ section, ...check }))
  } catch (error) {
    return [{ section, severity: 'error', message: messageOf(error) }]
  }
}
