// SPDX-License-Identifier: MIT
// The numbers of the GPU driver's errors (Xid) and of the NVSwitch driver's (SXid): meaning and action in our
// words; the numbers follow NVIDIA's published catalogue and the open kernel modules.
#include <algorithm>
#include <span>

#include "doctor/log/kernel_log.h"

namespace cheetah::doctor {
namespace {

constexpr Gravity kNote = Gravity::kNote, kPassing = Gravity::kPassing, kLasting = Gravity::kLasting,
                  kCorrected = Gravity::kCorrected;

constexpr const char* kProgram = "look at the program: run it under compute-sanitizer";
constexpr const char* kRestart =
    "restart the program; if it returns with several programs, test the GPU with dcgmi diag -r 3";
constexpr const char* kReset = "drain the node and reset the GPU; if it returns, have the GPU replaced";
constexpr const char* kReboot = "drain and reboot the node; if it returns, have the GPU replaced";
constexpr const char* kSeat =
    "drain the node, check power, riser and seat of the GPU, power-cycle; if it returns, replace it";
constexpr const char* kLink =
    "reset the GPUs and the fabric manager; if a link fails again, replace the board or cable";
constexpr const char* kDriver =
    "update the driver; report it to NVIDIA with nvidia-bug-report.sh if it returns";
constexpr const char* kWatch = "no action at once; watch whether it returns";

constexpr CodeMeaning kXids[] = {
    {1, 4, kPassing, "the driver was given a bad command stream", kRestart},
    {5, 7, kPassing, "the driver was given a bad command stream", kRestart},
    {8, 8, kPassing, "the GPU stopped processing a channel", kRestart},
    {9, 10, kPassing, "the driver programmed the GPU wrongly", kDriver},
    {11, 12, kPassing, "the driver was given a bad command stream", kRestart},
    {13, 13, kNote, "a kernel of a program faulted (illegal address or instruction)", kProgram},
    {14, 15, kNote, "a message of the driver's own tests", kWatch},
    {16, 17, kNote, "the display engine hung", kDriver},
    {18, 18, kLasting, "the GPU may no longer use the bus", kReboot},
    {19, 23, kNote, "an error of the display or video engine", kWatch},
    {24, 25, kPassing, "the GPU waited too long for a semaphore", kRestart},
    {26, 26, kPassing, "the GPU's memory did not answer in time", kReset},
    {27, 29, kNote, "an error of a video engine", kProgram},
    {30, 30, kNote, "a program's semaphore was not accessible", kProgram},
    {31, 31, kNote, "a kernel touched memory it does not own", kProgram},
    {32, 32, kPassing, "a corrupt command stream: the program, the driver, or the PCIe link", kRestart},
    {33, 33, kPassing, "an internal controller of the GPU failed", kReset},
    {34, 36, kNote, "an error of a video engine", kProgram},
    {37, 38, kPassing, "the driver's firmware on the GPU failed", kDriver},
    {39, 41, kPassing, "a copy engine faulted", kRestart},
    {42, 42, kNote, "an error of a video engine", kProgram},
    {43, 43, kNote, "a program's channel was stopped after its own fault", kProgram},
    {44, 44, kPassing, "the GPU faulted while it switched programs", kReset},
    {45, 45, kNote, "a program's channels were removed (it was killed, or an earlier error)",
        "look for the error before it"},
    {46, 46, kPassing, "the GPU stopped processing", kReset},
    {47, 47, kNote, "an error of a video engine", kProgram},
    {48, 48, kLasting, "an uncorrectable memory error", kReset},
    {49, 53, kNote, "a change of the power or thermal state", kWatch},
    {54, 54, kLasting, "the board's power cable is not connected", kSeat},
    {55, 55, kNote, "a change of the power or thermal state", kWatch},
    {56, 56, kNote, "an error of the display engine", kWatch},
    {57, 58, kLasting, "the interface to the GPU's memory is unstable", kReset},
    {59, 60, kPassing, "an internal controller of the GPU failed", kReset},
    {61, 61, kPassing, "the GPU's power controller stopped at a breakpoint", kReset},
    {62, 62, kLasting, "the GPU's power controller halted", kReset},
    {63, 63, kCorrected, "a bad memory row or page was set aside",
        "reset the GPU at the next chance, so that the row is replaced"},
    {64, 64, kLasting, "a bad memory row could not be set aside", "drain the node and have the GPU replaced"},
    {65, 65, kNote, "an error of a video engine", kProgram},
    {66, 67, kPassing, "the driver made an illegal access", kDriver},
    {68, 68, kNote, "an error of a video engine", kProgram},
    {69, 69, kNote, "a program used a class of the GPU wrongly", kProgram},
    {70, 72, kPassing, "a copy engine faulted", kRestart},
    {73, 73, kNote, "an error of a video engine", kProgram},
    {74, 74, kLasting, "an NVLink error", kLink},
    {75, 77, kPassing, "a copy engine faulted", kRestart},
    {78, 78, kPassing, "a virtual GPU could not be started",
        "check the vGPU host driver's version and licence"},
    {79, 79, kLasting, "the GPU fell off the bus", kSeat},
    {80, 80, kPassing, "commands reached the GPU corrupted: check its PCIe link", kReset},
    {81, 81, kNote, "an error of the display engine", kWatch},
    {82, 84, kNote, "an error of a video engine", kProgram},
    {85, 85, kPassing, "a copy engine faulted", kRestart},
    {86, 86, kNote, "the optical-flow engine faulted", kProgram},
    {87, 87, kNote, "a report of the driver", kWatch},
    {88, 89, kNote, "an error of a video engine", kProgram},
    {90, 90, kPassing, "an error of the GPU's cache", kReset},
    {91, 91, kNote, "a number the driver keeps in reserve", kWatch},
    {92, 92, kPassing, "corrected memory errors come fast",
        "watch the GPU's corrected errors; replace it when rows fail"},
    {93, 93, kCorrected, "the InfoROM was written too often", kDriver},
    {94, 94, kPassing, "a memory error, contained to one program",
        "restart that program; reset the GPU at the next chance"},
    {95, 95, kLasting, "a memory error that could not be contained", kReset},
    {96, 105, kNote, "an error of a video engine", kProgram},
    {106, 108, kNote, "a test message of the management bus", kWatch},
    {109, 109, kPassing, "the GPU could not switch programs in time", kReset},
    {110, 110, kLasting, "a security fault", kReboot},
    {111, 118, kNote, "an error of the display engine", kWatch},
    {119, 119, kLasting, "the GPU's own processor (GSP) did not answer in time", kReset},
    {120, 120, kLasting, "the GPU's own processor (GSP) failed", kReset},
    {121, 121, kPassing, "an error of the link between CPU and GPU (C2C)", kReset},
    {122, 124, kPassing, "the board's flash memory could not be accessed", kDriver},
    {125, 125, kPassing, "the InfoROM's file system is damaged",
        "have the InfoROM repaired, or the GPU replaced"},
    {126, 135, kNote, "a number the driver keeps in reserve", kWatch},
    {136, 136, kLasting, "an NVLink could not be trained", kLink},
    {137, 137, kNote, "a peer's access over NVLink was not permitted: a program, or a peer that died",
        kProgram},
    {138, 139, kNote, "an error of an engine that data-centre GPUs lack", kWatch},
    {140, 140, kLasting, "an uncorrectable error of memory or of an internal store", kReset},
    {141, 142, kNote, "a number the driver keeps in reserve", kWatch},
    {143, 143, kLasting, "the GPU could not be initialized", kReset},
    {144, 150, kLasting, "an NVLink error", kLink},
    {151, 151, kPassing, "keys of the confidential mode could not be rotated", kReset},
    {152, 153, kNote, "an error of an engine that data-centre GPUs lack", kWatch},
    {154, 154, kNote, "the driver says what recovers the GPU",
        "do what the line says: reset, reboot or drain"},
    {155, 155, kPassing, "an NVLink went down", kLink},
    {156, 156, kCorrected, "a part of the GPU was set aside", "reset the GPU at the next chance"},
    {157, 157, kLasting, "a bad part of the GPU could not be set aside",
        "drain the node and have the GPU replaced"},
    {158, 158, kLasting, "the GPU did not answer in time and cannot go on", kReset},
    {159, 159, kLasting, "an error of the coherent link to the CPU", kReset},
    {160, 160, kCorrected, "a memory channel was set aside", "reset the GPU at the next chance"},
    {161, 161, kLasting, "a bad memory channel could not be set aside",
        "drain the node and have the GPU replaced"},
    {162, 163, kNote, "power smoothing was switched", kWatch},
    {164, 165, kPassing, "the power-smoothing circuit is worn", "plan the GPU's replacement"},
    {166, 166, kNote, "an encrypted link changed its keys", kWatch},
    {167, 167, kLasting, "a PCIe transaction of the GPU never ended", kSeat},
    {168, 168, kLasting, "the GPU has less memory than it should",
        "drain the node and have the GPU replaced"},
    {169, 170, kLasting, "a security fault", kReboot},
    {171, 171, kLasting, "an uncorrectable error of the GPU's memory", kReset},
    {172, 172, kLasting, "an uncorrectable error of an internal store", kReset},
};

constexpr const char* kSwitchReset =
    "stop the jobs, reset all GPUs and NVSwitches together; if it returns, replace the board";
constexpr const char* kCable = "clean, reseat or replace the NVLink cable";

constexpr CodeMeaning kSxids[] = {
    {10000, 10999, kPassing, "an access to the switch's registers failed", kSwitchReset},
    {11000, 11999, kPassing, "a packet that entered a port was bad", kLink},
    {12000, 12999, kPassing, "a packet that left a port was bad", kLink},
    {13000, 14999, kPassing, "a port lost track of its requests", kSwitchReset},
    {15000, 15999, kPassing, "a packet had no route", "restart the fabric manager with its routing tables"},
    {16000, 16999, kPassing, "an internal error of a port", kSwitchReset},
    {17000, 17999, kPassing, "an error of a link's buffers", kSwitchReset},
    {18000, 18999, kPassing, "an error of a link's protocol", kLink},
    {19000, 19071, kPassing, "an error of a link's transactions", kLink},
    {19072, 19079, kPassing, "a link's peer did not answer in time", kLink},
    {19080, 19083, kPassing, "a link's peer answered with an error", kLink},
    {19084, 19084, kPassing, "a link's peer sends no heartbeat", kLink},
    {19085, 19999, kPassing, "an error of a link's transactions", kLink},
    {20000, 20000, kPassing, "an error of a link's lowest layer", kLink},
    {20001, 20001, kCorrected, "a link repeated packets", kCable},
    {20002, 20003, kCorrected, "a link recovered", kCable},
    {20004, 20005, kPassing, "the sender of a link failed", kLink},
    {20006, 20008, kPassing, "the two ends of a link disagreed about its state", kLink},
    {20009, 20010, kCorrected, "a link's error rate is high", kCable},
    {20011, 20011, kNote, "a trigger of the link's analyser", kWatch},
    {20012, 20012, kCorrected, "a link counted bad checksums", kCable},
    {20013, 20013, kLasting, "a link failed", kLink},
    {20014, 20015, kPassing, "a link's state machine was asked for the impossible", kLink},
    {20016, 20033, kPassing, "a link could not be trained", kLink},
    {20034, 20035, kLasting, "a link failed and is down", kLink},
    {20036, 20999, kPassing, "an error of a link's physical layer", kCable},
    {21000, 21999, kPassing, "the switch's fabric overflowed or routed wrongly", kSwitchReset},
    {22000, 22012, kLasting, "the controller of the links failed", kSwitchReset},
    {22013, 22999, kPassing, "the controller of the links reports a fault of a link", kLink},
    {23000, 23999, kLasting, "the switch's crossbar failed", kSwitchReset},
    {24000, 24999, kPassing, "a request waited for its answer in vain", kSwitchReset},
    {25000, 25999, kPassing, "a link could not change its state", kLink},
    {26000, 26999, kLasting, "the switch's system controller failed", kSwitchReset},
    {27000, 27999, kPassing, "the controller of the cable modules failed", kCable},
    {28000, 28001, kPassing, "a cable module is hot", "check the air flow at the cable modules"},
    {28002, 28002, kNote, "a cable module is cool again", kWatch},
    {28003, 28003, kLasting, "a cable module is too hot", "check the air flow at the cable modules"},
    {28004, 28004, kNote, "a cable module is cool again", kWatch},
    {28005, 28999, kPassing, "cable modules were shut down for heat",
        "check the air flow at the cable modules"},
    {29000, 30999, kPassing, "an error of multicast or in-network reduction", kSwitchReset},
};

std::optional<CodeMeaning> look_up(std::span<const CodeMeaning> table, int code) {
  const auto row = std::find_if(table.begin(), table.end(),
      [&](const CodeMeaning& one) { return code >= one.first && code <= one.last; });
  return row == table.end() ? std::nullopt : std::optional<CodeMeaning>(*row);
}

}  // namespace

std::optional<CodeMeaning> xid_meaning(int code) { return look_up(kXids, code); }
std::optional<CodeMeaning> sxid_meaning(int code) { return look_up(kSxids, code); }

}  // namespace cheetah::doctor
