import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.LongAdder;
import software.amazon.awssdk.auth.credentials.*;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.*;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.exceptions.*;
import software.amazon.kinesis.lifecycle.events.*;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.*;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.fanout.FanOutConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * A real Java KCL worker that says on stdout, one JSON object a line, what happens to it.
 * One source for every KCL from 2.x to 3.5: options that only newer releases have are set by reflection.
 */
public final class Peer {
    private static final Map<String, String> opts = new LinkedHashMap<>();
    private static final LongAdder records = new LongAdder();
    private static final LongAdder bytes = new LongAdder();
    private static final PrintStream out = System.out;

    private static String opt(String name, String fallback) {
        return opts.getOrDefault(name, fallback);
    }

    private static boolean has(String name) {
        return opts.containsKey(name);
    }

    private static void say(Object... kv) {
        StringBuilder b = new StringBuilder("{\"ms\":").append(System.currentTimeMillis());
        for (int i = 0; i < kv.length; i += 2) {
            b.append(",\"").append(kv[i]).append("\":");
            if (kv[i + 1] instanceof Number) b.append(kv[i + 1]);
            else b.append('"').append(String.valueOf(kv[i + 1]).replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ")).append('"');
        }
        synchronized (out) {
            out.println(b.append('}'));
            out.flush();
        }
    }

    private static final class Processor implements ShardRecordProcessor {
        private final String stream;
        private String shard;

        Processor(String stream) {
            this.stream = stream;
        }

        @Override
        public void initialize(InitializationInput in) {
            shard = in.shardId();
            say("event", "initialize", "stream", stream, "shard", shard,
                    "at", in.extendedSequenceNumber().sequenceNumber(),
                    "sub", in.extendedSequenceNumber().subSequenceNumber(),
                    "pending", in.pendingCheckpointSequenceNumber());
        }

        @Override
        public void processRecords(ProcessRecordsInput in) {
            for (KinesisClientRecord r : in.records()) {
                ByteBuffer d = r.data().duplicate();
                records.increment();
                bytes.add(d.remaining());
                if (!has("quiet")) {
                    byte[] b = new byte[Math.min(d.remaining(), 64)];
                    d.get(b);
                    say("event", "record", "stream", stream, "shard", shard, "seq", r.sequenceNumber(),
                            "sub", r.subSequenceNumber(), "key", r.partitionKey(), "data", Base64.getEncoder().encodeToString(b));
                }
            }
            long delay = Long.parseLong(opt("process-ms", "0"));
            if (delay > 0) {
                try {
                    Thread.sleep(delay);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            if (in.records().isEmpty()) return;
            KinesisClientRecord last = in.records().get(in.records().size() - 1);
            switch (opt("checkpoint", "batch")) {
                case "none": return;
                case "prepare": checkpoint(() -> in.checkpointer().prepareCheckpoint()); return;
                case "record": checkpoint(() -> in.checkpointer().checkpoint(last.sequenceNumber(), last.subSequenceNumber())); return;
                default: checkpoint(() -> in.checkpointer().checkpoint());
            }
        }

        @Override
        public void leaseLost(LeaseLostInput in) {
            say("event", "lease_lost", "stream", stream, "shard", shard);
        }

        @Override
        public void shardEnded(ShardEndedInput in) {
            say("event", "shard_ended", "stream", stream, "shard", shard);
            checkpoint(() -> in.checkpointer().checkpoint());
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput in) {
            say("event", "shutdown_requested", "stream", stream, "shard", shard);
            checkpoint(() -> in.checkpointer().checkpoint());
        }

        private void checkpoint(Checkpoint c) {
            try {
                c.run();
            } catch (Exception e) {
                say("event", "checkpoint_error", "shard", shard, "error", e.toString());
            }
        }
    }

    private interface Checkpoint {
        void run() throws Exception;
    }

    /** Calls a one-argument setter if this KCL release has it; says so if it was asked for and is missing. */
    private static void set(Object target, String setter, String value) {
        if (value == null) return;
        for (Method m : target.getClass().getMethods()) {
            if (!m.getName().equals(setter) || m.getParameterCount() != 1) continue;
            Class<?> t = m.getParameterTypes()[0];
            Object v;
            if (t == long.class || t == Long.class) v = Long.parseLong(value);
            else if (t == int.class || t == Integer.class) v = Integer.parseInt(value);
            else if (t == boolean.class || t == Boolean.class) v = Boolean.parseBoolean(value);
            else if (t.isEnum()) v = enumValue(t, value);
            else continue;
            try {
                m.invoke(target, v);
                return;
            } catch (ReflectiveOperationException e) {
                throw new IllegalArgumentException(setter, e);
            }
        }
        throw new IllegalArgumentException(target.getClass().getSimpleName() + " of this KCL has no " + setter);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object enumValue(Class t, String name) {
        return Enum.valueOf(t, name);
    }

    private static InitialPositionInStreamExtended position() {
        String p = opt("position", "TRIM_HORIZON");
        switch (p) {
            case "TRIM_HORIZON": return InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON);
            case "LATEST": return InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.LATEST);
            default: return InitialPositionInStreamExtended.newInitialPositionAtTimestamp(new Date(Long.parseLong(p)));
        }
    }

    public static void main(String[] args) throws Exception {
        for (String a : args) {
            String[] kv = a.replaceFirst("^--", "").split("=", 2);
            opts.put(kv[0], kv.length == 2 ? kv[1] : "true");
        }
        AwsCredentialsProvider creds = StaticCredentialsProvider.create(AwsBasicCredentials.create(opt("access-key", "test"), "test"));
        Region region = Region.of(opt("region", "us-east-1"));
        URI ddb = URI.create(opt("dynamodb-endpoint", opt("endpoint", "http://127.0.0.1:4566")));
        URI kin = URI.create(opt("kinesis-endpoint", opt("endpoint", "http://127.0.0.1:4566")));
        boolean fanOut = has("fan-out");
        KinesisAsyncClient kinesis = KinesisAsyncClient.builder().endpointOverride(kin).credentialsProvider(creds).region(region)
                .httpClientBuilder(NettyNioAsyncHttpClient.builder().maxConcurrency(500)
                        .protocol(fanOut || has("http2") ? Protocol.HTTP2 : Protocol.HTTP1_1)).build();
        DynamoDbAsyncClient dynamo = DynamoDbAsyncClient.builder().endpointOverride(ddb).credentialsProvider(creds).region(region).build();
        CloudWatchAsyncClient cloudWatch = CloudWatchAsyncClient.builder().endpointOverride(ddb).credentialsProvider(creds).region(region).build();

        ShardRecordProcessorFactory factory = new ShardRecordProcessorFactory() {
            @Override
            public ShardRecordProcessor shardRecordProcessor() {
                return new Processor(opt("stream", ""));
            }

            @Override
            public ShardRecordProcessor shardRecordProcessor(StreamIdentifier stream) {
                return new Processor(stream == null ? opt("stream", "") : stream.serialize());
            }
        };
        String app = opt("app", "app");
        String worker = opt("worker", "java-1");
        ConfigsBuilder b;
        if (has("streams")) { // account:stream:creationEpochSeconds, comma separated
            List<StreamConfig> list = new ArrayList<>();
            for (String s : opt("streams", "").split(",")) {
                list.add(new StreamConfig(StreamIdentifier.multiStreamInstance(s), position()));
            }
            b = new ConfigsBuilder(new MultiStreamTracker() {
                @Override
                public List<StreamConfig> streamConfigList() {
                    return list;
                }

                @Override
                public FormerStreamsLeasesDeletionStrategy formerStreamsLeasesDeletionStrategy() {
                    return new FormerStreamsLeasesDeletionStrategy.AutoDetectionAndDeferredDeletionStrategy() {
                        @Override
                        public Duration waitPeriodToDeleteFormerStreams() {
                            return Duration.ofSeconds(Long.parseLong(opt("former-streams-seconds", "3600")));
                        }
                    };
                }
            }, app, kinesis, dynamo, cloudWatch, worker, factory);
        } else {
            b = new ConfigsBuilder(new SingleStreamTracker(opt("stream", "stream"), position()), app, kinesis, dynamo, cloudWatch, worker, factory);
        }
        var coordinator = b.coordinatorConfig();
        var leases = b.leaseManagementConfig();
        var metrics = b.metricsConfig();
        var retrieval = b.retrievalConfig();
        metrics.metricsFactory(new NullMetricsFactory());
        set(coordinator, "clientVersionConfig", has("client-version") ? "CLIENT_VERSION_CONFIG_" + opt("client-version", "") : null);
        set(coordinator, "migrateAllEntitiesToLeaseTable", opts.get("single-table"));
        set(coordinator, "tableMigrationCompleteBakeTimeSeconds", opts.get("bake-seconds"));
        set(leases, "failoverTimeMillis", opts.get("failover-ms"));
        set(leases, "maxLeasesForWorker", opts.get("max-leases"));
        set(leases, "dynamoDbLockBasedLeaderLeaseDurationInMillis", opts.get("lock-ms"));
        set(leases, "dynamoDbLockBasedLeaderHeartbeatPeriodInMillis", opts.get("lock-heartbeat-ms"));
        set(leases, "leaseAssignmentIntervalMillis", opts.get("assignment-ms"));
        if (has("report-ms")) { // 3.x: how often the worker's own record is written
            set(leases.getClass().getMethod("workerUtilizationAwareAssignmentConfig").invoke(leases),
                    "workerMetricsReporterFreqInMillis", opts.get("report-ms"));
        }
        if (fanOut) {
            FanOutConfig f = new FanOutConfig(kinesis).applicationName(app);
            if (!has("streams")) f.streamName(opt("stream", "stream"));
            retrieval.retrievalSpecificConfig(f);
        } else {
            PollingConfig p = has("streams") ? new PollingConfig(kinesis) : new PollingConfig(opt("stream", "stream"), kinesis);
            if (has("max-records")) p.maxRecords(Integer.parseInt(opt("max-records", "10000")));
            if (has("idle-ms")) p.idleTimeBetweenReadsInMillis(Long.parseLong(opt("idle-ms", "1000")));
            retrieval.retrievalSpecificConfig(p);
        }
        Scheduler scheduler = new Scheduler(b.checkpointConfig(), coordinator, leases, b.lifecycleConfig(), metrics, b.processorConfig(), retrieval);
        Thread run = new Thread(scheduler, "scheduler");
        say("event", "start", "worker", worker, "pid", ProcessHandle.current().pid());
        run.start();
        ScheduledExecutorService every = Executors.newSingleThreadScheduledExecutor(r -> {
            Thread t = new Thread(r, "usage");
            t.setDaemon(true);
            return t;
        });
        var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        if (has("usage")) {
            every.scheduleAtFixedRate(() -> say("event", "usage", "records", records.sum(), "bytes", bytes.sum(),
                    "cpu_ns", os.getProcessCpuTime(),
                    "heap_used", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed(),
                    "threads", ManagementFactory.getThreadMXBean().getThreadCount()), 1, 1, TimeUnit.SECONDS);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                boolean graceful = scheduler.startGracefulShutdown().get(Long.parseLong(opt("stop-seconds", "30")), TimeUnit.SECONDS);
                say("event", "stopped", "graceful", graceful, "records", records.sum());
            } catch (Exception e) {
                say("event", "stopped", "error", e.toString(), "records", records.sum());
            }
        }));
        run.join();
    }
}
