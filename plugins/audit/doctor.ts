// Checks for `svc doctor` the signing key, the directory of the log, and the control plane of the upload.
import { checkServer, checkUsable, type DoctorCheck, type PluginContext } from '@svc/core'
import { checkDirectory } from '@svc/core/store'
import type { AuditConfig } from './config.js'
import { ControlPlane } from './log/upload/control-plane.js'
import { isOidcToken, type PresignConfig } from './log/upload/presign.js'
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

/** For an OIDC token the control plane returns no metadata, so only its address is checked. */
async function checkUpload(presign: PresignConfig): Promise<readonly DoctorCheck[]> {
  const { apiBaseUrl, auditKey, timeoutMs } = presign
  const [reached, ...clock] = await checkServer('the control plane', apiBaseUrl)
  if (reached.severity === 'error' || isOidcToken(auditKey)) return [reached, ...clock]
  const controlPlane = new ControlPlane(presign, timeoutMs ?? 0)
  const hint = 'check audit.presign.auditKey: the whole Authorization header, such as "Bearer <API_KEY>"'
  try {
    const key = await checkUsable('the key of the control plane', hint, () =>
      controlPlane.checkKey(new AbortController().signal),
    )
    return [reached, ...clock, key]
  } finally {
    await controlPlane.close()
  }
}
