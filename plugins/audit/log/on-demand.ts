// Entry points that load their modules with the first call: a process that only writes records does not need them.

type Verify = typeof import('./verify/verify-log.js')
type Prove = typeof import('./prove/prove.js')
type Consistency = typeof import('./prove/consistency.js')
type Vkeys = typeof import('./prove/vkeys.js')
type Fetch = typeof import('./fetch/fetch-log.js')
type ObjectSources = typeof import('./fetch/object-source.js')
type Trace = typeof import('./read/trace-tree.js')
type Report = typeof import('./report/audit-report.js')
type Keys = typeof import('./keys/read-keys.js')
type Cosignature = typeof import('./seal/cosignature.js')
type WitnessServer = typeof import('./witness/witness-server.js')
type Stats = typeof import('./read/log-stats.js')

export const verifyLog: Verify['verifyLog'] = async (...given) =>
  (await import('./verify/verify-log.js')).verifyLog(...given)

export const proveRecord: Prove['proveRecord'] = async (...given) =>
  (await import('./prove/prove.js')).proveRecord(...given)

export const proveRecords: Prove['proveRecords'] = async (...given) =>
  (await import('./prove/prove.js')).proveRecords(...given)

/** As `checkConsistency` of prove/consistency.ts. */
export const checkConsistency = async (
  ...given: Parameters<Consistency['checkConsistency']>
): Promise<ReturnType<Consistency['checkConsistency']>> =>
  (await import('./prove/consistency.js')).checkConsistency(...given)

export const vkeysOfLog: Vkeys['vkeysOfLog'] = async (...given) =>
  (await import('./prove/vkeys.js')).vkeysOfLog(...given)

export const readKeys: Keys['readKeys'] = async (...given) =>
  (await import('./keys/read-keys.js')).readKeys(...given)

export const readWitnessKeys: Cosignature['readWitnessKeys'] = async (...given) =>
  (await import('./seal/cosignature.js')).readWitnessKeys(...given)

export const startWitness: WitnessServer['startWitness'] = async (...given) =>
  (await import('./witness/witness-server.js')).startWitness(...given)

export const logStats: Stats['logStats'] = async (...given) =>
  (await import('./read/log-stats.js')).logStats(...given)

/** The objects that a control plane lists, of the owner of its key; to be closed. */
export const controlPlaneSource = async (
  ...given: ConstructorParameters<ObjectSources['ControlPlaneSource']>
): Promise<InstanceType<ObjectSources['ControlPlaneSource']>> =>
  new (await import('./fetch/object-source.js')).ControlPlaneSource(...given)

export const fetchLog: Fetch['fetchLog'] = async (...given) =>
  (await import('./fetch/fetch-log.js')).fetchLog(...given)

export const auditReport: Report['auditReport'] = async (...given) =>
  (await import('./report/audit-report.js')).auditReport(...given)

export const traceTree: Trace['traceTree'] = async (...given) =>
  (await import('./read/trace-tree.js')).traceTree(...given)
