// Entry points that load their modules with the first call: a process that only writes records does not need them.

type Verify = typeof import('./tools/verify/verify-log.js')
type Prove = typeof import('./tools/prove/prove.js')
type Consistency = typeof import('./tools/prove/consistency.js')
type Vkeys = typeof import('./tools/prove/vkeys.js')
type Fetch = typeof import('./tools/fetch/fetch-log.js')
type ObjectSources = typeof import('./tools/fetch/object-source.js')
type Trace = typeof import('./tools/read/trace-tree.js')
type Report = typeof import('./tools/report/audit-report.js')
type Keys = typeof import('./keys/read-keys.js')
type Cosignature = typeof import('./tree/cosignature.js')
type WitnessServer = typeof import('./tools/witness/witness-server.js')
type Stats = typeof import('./tools/read/log-stats.js')

export const verifyLog: Verify['verifyLog'] = async (...given) =>
  (await import('./tools/verify/verify-log.js')).verifyLog(...given)

export const proveRecord: Prove['proveRecord'] = async (...given) =>
  (await import('./tools/prove/prove.js')).proveRecord(...given)

export const proveRecords: Prove['proveRecords'] = async (...given) =>
  (await import('./tools/prove/prove.js')).proveRecords(...given)

/** As `checkConsistency` of prove/consistency.ts. */
export const checkConsistency = async (
  ...given: Parameters<Consistency['checkConsistency']>
): Promise<ReturnType<Consistency['checkConsistency']>> =>
  (await import('./tools/prove/consistency.js')).checkConsistency(...given)

export const vkeysOfLog: Vkeys['vkeysOfLog'] = async (...given) =>
  (await import('./tools/prove/vkeys.js')).vkeysOfLog(...given)

export const readKeys: Keys['readKeys'] = async (...given) =>
  (await import('./keys/read-keys.js')).readKeys(...given)

export const readWitnessKeys: Cosignature['readWitnessKeys'] = async (...given) =>
  (await import('./tree/cosignature.js')).readWitnessKeys(...given)

export const startWitness: WitnessServer['startWitness'] = async (...given) =>
  (await import('./tools/witness/witness-server.js')).startWitness(...given)

export const logStats: Stats['logStats'] = async (...given) =>
  (await import('./tools/read/log-stats.js')).logStats(...given)

/** The objects that a control plane lists, of the owner of its key; to be closed. */
export const controlPlaneSource = async (
  ...given: ConstructorParameters<ObjectSources['ControlPlaneSource']>
): Promise<InstanceType<ObjectSources['ControlPlaneSource']>> =>
  new (await import('./tools/fetch/object-source.js')).ControlPlaneSource(...given)

export const fetchLog: Fetch['fetchLog'] = async (...given) =>
  (await import('./tools/fetch/fetch-log.js')).fetchLog(...given)

export const auditReport: Report['auditReport'] = async (...given) =>
  (await import('./tools/report/audit-report.js')).auditReport(...given)

export const traceTree: Trace['traceTree'] = async (...given) =>
  (await import('./tools/read/trace-tree.js')).traceTree(...given)
