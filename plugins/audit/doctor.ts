// Checks for `svc doctor` the signing key, the directory of the log, and the control plane of the upload.
import { checkServer, checkUsable, type DoctorCheck, type PluginContext } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { checkDirectory } from '@svc/core/store'
import type { AuditConfig } from './config.js'
import { ControlPlane } from './log/upload/control-plane.js'
import { isOidcToken, type PresignConfig } from './log/upload/presign.js'
import { ownerPrefix } from './log/upload/source.js'
import { storedObjects } from './log/upload/stored-objects.js'
import { type LogSource, logDirectory } from './open-log.js'
import { keyError } from './signer-key.js'

export async function checkLog(
  config: AuditConfig,
  context: PluginContext,
  source: LogSource,
): Promise<readonly DoctorCheck[]> {
  if (source.isExternal) {
    return [{ severity: 'ok', message: 'the log is written by code, which is not checked' }]
  }
  const keyRef = config.signer?.keyRef
  const { presign } = config
  return [
    ...(keyRef === undefined ? [] : [checkSigner(keyRef, context)]),
    ...(await checkDirectory('the log in', logDirectory(config, context), config.minFreeMb)),
    ...(presign === undefined ? [] : await checkUpload(presign)),
  ]
}

function checkSigner(keyRef: string, { baseDir }: PluginContext): DoctorCheck {
  const warnings: string[] = []
  const error = keyError(keyRef, baseDir, (warning) => warnings.push(warning))
  if (error !== undefined) {
    const hint = '`npx svc-sdk keys generate --out FILE` makes a key; name its file in audit.signer.keyRef'
    return { severity: 'error', message: `the signing key cannot be used: ${error}`, hint }
  }
  const [warning] = warnings
  if (warning !== undefined) return { severity: 'warning', message: warning }
  return { severity: 'ok', message: 'the signing key can be used' }
}

async function checkUpload(presign: PresignConfig): Promise<readonly DoctorCheck[]> {
  const { apiBaseUrl, auditKey, timeoutMs } = presign
  const [reached, ...clock] = await checkServer('the control plane', apiBaseUrl)
  if (reached.severity === 'error') return [reached, ...clock]
  const controlPlane = new ControlPlane(presign, timeoutMs ?? 0)
  const hint = 'check audit.presign.auditKey: the whole Authorization header, such as "Bearer <API_KEY>"'
  const { signal } = new AbortController()
  try {
    // The control plane returns no metadata for an OIDC token, so the listing checks it.
    const key = isOidcToken(auditKey)
      ? []
      : [await checkUsable('the key of the control plane', hint, () => controlPlane.checkKey(signal))]
    const isRefused = key.some(({ severity }) => severity === 'error')
    return [reached, ...clock, ...key, ...(isRefused ? [] : [await checkBucket(controlPlane, signal)])]
  } finally {
    await controlPlane.close()
  }
}

/** Lists objects with their checksums, which takes the permissions to list and to read; an upload cannot be tried. */
async function checkBucket(controlPlane: ControlPlane, signal: AbortSignal): Promise<DoctorCheck> {
  const ask: ControlPlane['ask'] = (...request) => controlPlane.ask(...request)
  try {
    const query = { prefix: ownerPrefix(await controlPlane.metadata(signal)), checksums: true }
    await storedObjects(ask, query, signal).next()
    return { severity: 'ok', message: 'the bucket of the control plane can be listed' }
  } catch (error) {
    const message = `the bucket of the control plane cannot be listed: ${messageOf(error)}`
    const hint =
      'a lost upload state then begins anew; the control plane needs s3:ListBucket, s3:GetObject and s3:PutObject, and its log has the reason'
    return { severity: 'error', message, hint }
  }
}
